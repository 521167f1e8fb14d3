{{/* Writes /run/adit/adit.toml of this pod, and sets up the devices that are the kernel's. */}}
{{- define "adit.configureScript" -}}
#!/bin/sh
# Writes the configuration of this pod with the addresses and devices that it got. Then: adit run, or adit reload.
set -eu
mkdir -p -m 700 /run/adit
ordinal=${POD_NAME##*-}
case $POD_IP in *:*) host="[$POD_IP]" ;; *) host=$POD_IP ;; esac
sed -e "s|@POD_HOST@|$host|g" \
{{- if eq .Values.ports "dpdk" }}
{{- range .Values.interfaces }}
  -e "s|@PCI_{{ .name }}@|${PCIDEVICE_{{ .resource | upper | replace "." "_" | replace "/" "_" | replace "-" "_" }}%%,*}|g" \
{{- end }}
{{- end }}
  "/etc/adit/adit-$ordinal.toml" > /run/adit/adit.toml
{{- if ne .Values.ports "dpdk" }}
# adit answers ARP and neighbor discovery on these devices: the kernel has no address there.
for device in{{ range .Values.interfaces }} {{ .name }}{{ end }}; do
  ip link set "$device" addrgenmode none up
done
{{- end }}
{{- if .Values.n4.addresses }}
ip link set n4 up
{{- if not .Values.standby.enabled }}
# Nobody else has the address, and adit binds it at once.
ip address replace "$(cat "/etc/adit/n4-$ordinal")" dev n4{{ if contains ":" (first .Values.n4.addresses) }} nodad{{ end }}
{{- end }}
{{- range .Values.n4.routes }}
ip route replace {{ .prefix }} via {{ .nextHop }} dev n4
{{- end }}
{{- end }}
{{- end -}}

{{/* Runs before a pod is stopped. */}}
{{- define "adit.stopScript" -}}
#!/bin/sh
# New sessions go to other user planes from now on.
adit drain on
{{- if eq (include "adit.sessionsAtStop" .) "end" }}
# The others have some time to end; then the SMFs are requested to release this adit.
number() { adit show node --json | tr -d ' \n' | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }
until_none() {
  seconds=$2
  while [ "$seconds" -gt 0 ] && [ "$(number "$1")" != 0 ]; do
    sleep 1
    seconds=$((seconds - 1))
  done
}
until_none sessions {{ int .Values.stop.drainSeconds }}
adit show associations --json | tr -d ' \n' | grep -o '"node_id":"[^"]*"' | cut -d '"' -f 4 | while read -r id; do
  adit association release "$id"
done
until_none associations 60
{{- end }}
{{- end -}}
