{{- define "adit.fullname" -}}
{{- ternary .Release.Name (printf "%s-adit" .Release.Name) (contains "adit" .Release.Name) | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "adit.selector" -}}
app.kubernetes.io/name: adit
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "adit.labels" -}}
{{ include "adit.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The Multus networks of a pod, by the names of their devices. */}}
{{- define "adit.networks" -}}
{{- $networks := dict -}}
{{- if .Values.n4.addresses }}{{ $_ := set $networks "n4" .Values.n4 }}{{ end -}}
{{- range .Values.interfaces }}{{ $_ := set $networks .name . }}{{ end -}}
{{- toJson $networks -}}
{{- end -}}

{{/* Whether sessions stay in the store when a pod stops: "keep" or "end". */}}
{{- define "adit.sessionsAtStop" -}}
{{- .Values.stop.sessions | default (ternary "end" "keep" (eq .Values.store.kind "none")) -}}
{{- end -}}

{{/* Refuses values that do not go together, in one sentence each. */}}
{{- define "adit.check" -}}
{{- include "adit.checkDisjoint" . -}}
{{- $names := dict "n4" true -}}
{{- $resources := dict -}}
{{- range .Values.interfaces -}}
  {{- if hasKey $names .name }}{{ fail (printf "interfaces: two devices of a pod would have the name %s: give each interface its own, other than n4" .name) }}{{ end -}}
  {{- $_ := set $names .name true -}}
  {{- if and (eq $.Values.ports "dpdk") (not .resource) -}}
    {{- fail (printf "interfaces.%s.resource is missing: ports: dpdk takes a device of an SR-IOV device plugin, such as intel.com/%s" .name .name) -}}
  {{- end -}}
  {{- if .resource -}}
    {{- if and (hasKey $resources .resource) (eq $.Values.ports "dpdk") -}}
      {{- fail (printf "interfaces.%s.resource: %s is the resource of another interface, so their devices could be exchanged: give each interface its own resource" .name .resource) -}}
    {{- end -}}
    {{- $_ := set $resources .resource true -}}
  {{- end -}}
{{- end -}}
{{- range $name, $network := include "adit.networks" . | fromJson -}}
  {{- if and (not $network.attachment) (not $network.config) -}}
    {{- fail (printf "the network of %s is missing: give attachment (an existing NetworkAttachmentDefinition) or config (of one that the chart makes)" $name) -}}
  {{- end -}}
{{- end -}}
{{- if and (eq .Values.hugepages.pageSize "1Gi") (mod (int .Values.hugepages.totalMi) 1024) -}}
  {{- fail (printf "hugepages.totalMi: %d MiB are no whole number of pages of 1Gi: take a multiple of 1024" (int .Values.hugepages.totalMi)) -}}
{{- end -}}
{{- if hasKey .Values.nrf "nf_instance_id" -}}
  {{- fail "nrf.nf_instance_id: replicas would be one NF instance to the NRF; leave it out, it follows from the Node ID of each" -}}
{{- end -}}
{{- if and (eq .Values.store.kind "redis") (not .Values.store.redis.servers) -}}
  {{- fail "store.redis.servers is missing: list the addresses of the Redis or Valkey servers" -}}
{{- end -}}
{{- if .Values.standby.enabled -}}
  {{- if ne .Values.store.kind "redis" }}{{ fail "standby needs a store that both pods reach: set store.kind to redis" }}{{ end -}}
  {{- if not .Values.n4.addresses }}{{ fail "standby needs n4.addresses: the active pod of a pair takes the N4 address" }}{{ end -}}
  {{- if .Values.n4.routes }}{{ fail "standby and n4.routes: the kernel drops these routes with the N4 address, which moves between the pods; let the SMFs be on the link of N4" }}{{ end -}}
  {{- if eq (include "adit.sessionsAtStop" .) "end" }}{{ fail "standby takes over sessions, so stop.sessions must be keep" }}{{ end -}}
{{- end -}}
{{- if and (eq .Values.stop.sessions "keep") (eq .Values.store.kind "none") -}}
  {{- fail "stop.sessions: keep needs a store: set store.kind to journal or redis" -}}
{{- end -}}
{{- end -}}

{{/* A table of adit.toml, with all tables in it. */}}
{{- define "adit.toml" -}}
{{- $path := .path -}}
{{- range $key, $value := .table -}}
  {{- $isTables := and (kindIs "slice" $value) (not (empty $value)) -}}
  {{- if $isTables }}{{ $isTables = kindIs "map" (first $value) }}{{ end -}}
  {{- if not (or (kindIs "map" $value) (kindIs "invalid" $value) $isTables) }}
{{ $key }} = {{ toJson $value }}
  {{- end -}}
{{- end -}}
{{- range $key, $value := .table -}}
  {{- $name := ternary $key (printf "%s.%s" $path $key) (empty $path) -}}
  {{- if kindIs "map" $value }}

[{{ $name }}]
    {{- include "adit.toml" (dict "table" $value "path" $name) -}}
  {{- else if and (kindIs "slice" $value) (not (empty $value)) -}}
    {{- if kindIs "map" (first $value) -}}
      {{- range $value }}

[[{{ $name }}]]
        {{- include "adit.toml" (dict "table" . "path" $name) -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end -}}
