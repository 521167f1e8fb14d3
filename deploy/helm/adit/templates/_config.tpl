{{/* The number of workers, if a port must know it: the CPUs but that of control. */}}
{{- define "adit.workerCount" -}}
{{- kindIs "string" .Values.workers | ternary (max 1 (sub (int .Values.cpus) 1)) (int .Values.workers) -}}
{{- end -}}

{{/* The device of interface number `index`. configure.sh replaces words between @ signs. */}}
{{- define "adit.device" -}}
{{- $ports := .root.Values.ports -}}
{{- if eq $ports "dpdk" -}}
  @PCI_{{ .interface.name }}@
{{- else if eq $ports "af_xdp" -}}
  net_af_xdp{{ .index }},iface={{ .interface.name }},queue_count={{ include "adit.workerCount" .root }}
{{- else -}}
  kernel:packet,iface={{ .interface.name }}
{{- end -}}
{{- end -}}

{{- define "adit.storeSection" -}}
{{- $root := .root -}}
{{- $store := $root.Values.store -}}
{{- $section := dict "kind" $store.kind "on_stop" (ternary "release" "keep" (eq (include "adit.sessionsAtStop" $root) "end")) -}}
{{- if eq $store.kind "journal" -}}
  {{- $_ := set $section "folder" "/var/lib/adit/journal" -}}
{{- else if eq $store.kind "redis" -}}
  {{- $redis := $store.redis -}}
  {{- $_ := set $section "servers" $redis.servers -}}
  {{- $_ := set $section "name" (printf "%s.%s-%d" $root.Release.Namespace (include "adit.fullname" $root) (int .ordinal)) -}}
  {{- $_ := set $section "acknowledge_replicas" $redis.acknowledgeReplicas -}}
  {{- if $redis.username }}{{ $_ := set $section "username" $redis.username }}{{ end -}}
  {{- if $redis.passwordSecret }}{{ $_ := set $section "password_file" "/etc/adit-store/password" }}{{ end -}}
  {{- if $redis.tlsSecret -}}
    {{- $_ := set $section "tls_ca" "/etc/adit-store-tls/ca.crt" -}}
    {{- if $redis.clientCertificate -}}
      {{- $_ := set $section "tls_certificate" "/etc/adit-store-tls/tls.crt" -}}
      {{- $_ := set $section "tls_key" "/etc/adit-store-tls/tls.key" -}}
    {{- end -}}
    {{- if $redis.tlsName }}{{ $_ := set $section "tls_name" $redis.tlsName }}{{ end -}}
  {{- end -}}
{{- end -}}
{{- toJson $section -}}
{{- end -}}

{{/* The configuration of replica `ordinal`, as a map of the sections of adit.toml. */}}
{{- define "adit.config" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $ordinal := int .ordinal -}}
{{- $fullname := include "adit.fullname" $root -}}
{{- $n4 := list -}}
{{- range $values.n4.addresses }}{{ $n4 = append $n4 (include "adit.addressOf" (dict "text" . "path" "n4.addresses" "ordinal" $ordinal)) }}{{ end -}}
{{- $id := printf "%s-%d.%s.%s.svc.%s" $fullname $ordinal $fullname $root.Release.Namespace $values.clusterDomain -}}
{{- $host := "@POD_HOST@" -}}
{{- if $n4 -}}
  {{- $id = first (splitList "/" (first $n4)) -}}
  {{- $host = ternary (printf "[%s]" $id) $id (contains ":" $id) -}}
{{- end -}}
{{- $datapath := dict "poll" $values.poll -}}
{{- if and (kindIs "string" $values.workers) (ne $values.ports "af_xdp") -}}
  {{- $_ := set $datapath "workers" "auto" -}}
{{- else -}}
  {{- $_ := set $datapath "workers" (dict "count" (include "adit.workerCount" $root | int)) -}}
{{- end -}}
{{- $dpdk := dict "hugepages" "never" -}}
{{- if $values.hugepages.totalMi -}}
  {{- $dpdk = dict "hugepages" "require" "memory_mib" (int $values.hugepages.totalMi) -}}
{{- end -}}
{{- $ports := list }}{{ $interfaces := list }}{{ $routes := list -}}
{{- range $index, $interface := $values.interfaces -}}
  {{- $port := dict "name" .name "device" (include "adit.device" (dict "root" $root "interface" . "index" $index)) "mtu_bytes" (.mtu | default 1500) -}}
  {{- if and (eq $values.ports "af_xdp") (ne $values.xdp "off") }}{{ $_ := set $port "xdp" $values.xdp }}{{ end -}}
  {{- $ports = append $ports $port -}}
  {{- $addresses := list -}}
  {{- range .addresses }}{{ $addresses = append $addresses (include "adit.addressOf" (dict "text" . "path" (printf "interfaces.%s.addresses" $interface.name) "ordinal" $ordinal)) }}{{ end -}}
  {{- $own := dict "name" .name "role" .role "port" .name "addresses" $addresses -}}
  {{- if .networkInstance }}{{ $_ := set $own "network_instance" .networkInstance }}{{ end -}}
  {{- if .vlan }}{{ $_ := set $own "vlan" .vlan }}{{ end -}}
  {{- $interfaces = append $interfaces $own -}}
  {{- range .routes }}{{ $routes = append $routes (dict "interface" $interface.name "prefix" .prefix "next_hop" .nextHop) }}{{ end -}}
{{- end -}}
{{- $pools := list -}}
{{- range $index, $pool := $values.pools -}}
  {{- $own := dict "prefix" (include "adit.poolOf" (dict "pool" . "path" (printf "pools[%d]" $index) "ordinal" $ordinal)) -}}
  {{- if .networkInstance }}{{ $_ := set $own "network_instance" .networkInstance }}{{ end -}}
  {{- if .identity }}{{ $_ := set $own "identity" .identity }}{{ end -}}
  {{- if .sNssai }}{{ $_ := set $own "s_nssai" .sNssai }}{{ end -}}
  {{- $pools = append $pools $own -}}
{{- end -}}
{{- $config := dict
  "node" (dict "id" $id)
  "n4" (dict "listen" (printf "%s:8805" $host) "connect" $values.n4.connect "allow" $values.n4.allow)
  "sessions" (dict "sessions_max" $values.sessionsMax)
  "datapath" $datapath
  "dpdk" $dpdk
  "port" $ports
  "interface" $interfaces
  "route" $routes
  "ue_pool" $pools
  "store" (include "adit.storeSection" . | fromJson)
  "api" (dict "listen" (printf "0.0.0.0:%d" (int $values.api.port)) "tls_certificate" "/etc/adit-api/tls.crt" "tls_key" "/etc/adit-api/tls.key" "tokens_file" "/etc/adit-tokens/tokens")
  "admin" (dict "socket" "/run/adit/admin.sock")
-}}
{{- if $values.standby.enabled -}}
  {{- $addresses := list -}}
  {{- range $n4 }}{{ $addresses = append $addresses (dict "device" "n4" "address" .) }}{{ end -}}
  {{- $_ := set $config "standby" (dict "addresses" $addresses) -}}
{{- end -}}
{{- if $values.teidRangeBits -}}
  {{- $_ := set $config "gtpu" (dict "teid_range_bits" (int $values.teidRangeBits) "teid_range" $ordinal) -}}
{{- end -}}
{{- if $values.nrf }}{{ $_ := set $config "nrf" $values.nrf }}{{ end -}}
{{- mergeOverwrite $config (deepCopy $values.config) | toJson -}}
{{- end -}}

{{- define "adit.tomlOf" -}}
{{- include "adit.toml" (dict "table" (include "adit.config" . | fromJson) "path" "") | trim }}
{{ end -}}

{{/* All pods share this. A change of it restarts them; another number of replicas does not change it. */}}
{{- define "adit.sharedFiles" -}}
{{- include "adit.tomlOf" (dict "root" . "ordinal" 0) -}}
{{- include "adit.configureScript" . -}}
{{- include "adit.stopScript" . -}}
{{- end -}}

{{/* The scripts, and the configuration of each replica. */}}
{{- define "adit.files" -}}
{{- range $ordinal := until (int .Values.replicas) }}
adit-{{ $ordinal }}.toml: |
  {{- include "adit.tomlOf" (dict "root" $ "ordinal" $ordinal) | nindent 2 }}
{{- if and $.Values.n4.addresses (not $.Values.standby.enabled) }}
n4-{{ $ordinal }}: {{ include "adit.addressOf" (dict "text" (first $.Values.n4.addresses) "path" "n4.addresses" "ordinal" $ordinal) | quote }}
{{- end }}
{{- end }}
configure.sh: |
  {{- include "adit.configureScript" . | nindent 2 }}
{{- if not .Values.standby.enabled }}
stop.sh: |
  {{- include "adit.stopScript" . | nindent 2 }}
{{- end }}
{{- end -}}
