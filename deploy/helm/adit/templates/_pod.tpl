{{/* CPUs, memory, hugepages, and devices of SR-IOV device plugins. */}}
{{- define "adit.resources" -}}
{{- $resources := dict "cpu" (printf "%d" (int .Values.cpus)) "memory" .Values.memory -}}
{{- if .Values.hugepages.totalMi -}}
  {{- $_ := set $resources (printf "hugepages-%s" .Values.hugepages.pageSize) (printf "%dMi" (int .Values.hugepages.totalMi)) -}}
{{- end -}}
{{- range $name, $network := include "adit.networks" . | fromJson -}}
  {{- with $network.resource -}}
    {{- $_ := set $resources . (printf "%d" (add 1 (int (get $resources .)))) -}}
  {{- end -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{- define "adit.capabilities" -}}
{{- $needed := list "NET_ADMIN" "NET_RAW" "IPC_LOCK" "SYS_NICE" -}}
{{- /* libxdp looks up loaded programs, for which BPF does not suffice. */ -}}
{{- if eq .Values.ports "af_xdp" }}{{ $needed = append $needed "SYS_ADMIN" }}{{ end -}}
{{- toJson (concat $needed .Values.extraCapabilities | uniq) -}}
{{- end -}}

{{/* The networks, with the names of their devices, for Multus. */}}
{{- define "adit.networkAnnotation" -}}
{{- $list := list -}}
{{- range $name, $network := include "adit.networks" . | fromJson -}}
  {{- $parts := splitList "/" ($network.attachment | default (printf "%s-%s" (include "adit.fullname" $) $name)) -}}
  {{- $one := dict "name" (last $parts) "interface" $name -}}
  {{- if gt (len $parts) 1 }}{{ $_ := set $one "namespace" (first $parts) }}{{ end -}}
  {{- $list = append $list $one -}}
{{- end -}}
{{- toJson $list -}}
{{- end -}}

{{/* Replicas keep away from each other, and the two pods of a replica never share a node. */}}
{{- define "adit.affinity" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels: {{- include "adit.selector" . | nindent 12 }}
  {{- if .Values.standby.enabled }}
  requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels: {{- include "adit.selector" . | nindent 10 }}
      matchLabelKeys: [apps.kubernetes.io/pod-index]
  {{- end }}
{{- end -}}

{{- define "adit.apiSecret" -}}
{{- printf "%s-api" (include "adit.fullname" .) -}}
{{- end -}}

{{- define "adit.probe" -}}
httpGet: { path: {{ .path }}, port: api, scheme: HTTPS }
timeoutSeconds: 3
{{- end -}}

{{/* A StatefulSet of `name`, in the role "upf" or "standby". */}}
{{- define "adit.statefulSet" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $hasJournal := eq $values.store.kind "journal" -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ .name }}
  labels: {{- include "adit.labels" $root | nindent 4 }}
spec:
  replicas: {{ $values.replicas }}
  serviceName: {{ include "adit.fullname" $root }}
  podManagementPolicy: Parallel
  {{- if $values.standby.enabled }}
  # An update of both pods of a pair at once would be an outage: docs/kubernetes.md has the order.
  updateStrategy: { type: OnDelete }
  {{- end }}
  selector:
    matchLabels: {{- include "adit.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .role }}
  {{- if $hasJournal }}
  # A replica that is scaled away does not come back with its former sessions.
  persistentVolumeClaimRetentionPolicy: { whenScaled: Delete, whenDeleted: Retain }
  volumeClaimTemplates:
    - metadata:
        name: store
      spec:
        accessModes: [ReadWriteOnce]
        {{- with $values.store.journal.storageClass }}
        storageClassName: {{ . }}
        {{- end }}
        resources:
          requests: { storage: {{ $values.store.journal.size }} }
  {{- end }}
  template:
    metadata:
      labels:
        {{- include "adit.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .role }}
        {{- with $values.podLabels }}{{ toYaml . | nindent 8 }}{{ end }}
      annotations:
        k8s.v1.cni.cncf.io/networks: {{ include "adit.networkAnnotation" $root | quote }}
        checksum/config: {{ include "adit.sharedFiles" $root | sha256sum }}
        {{- with $values.podAnnotations }}{{ toYaml . | nindent 8 }}{{ end }}
    spec: {{- include "adit.podSpec" $root | nindent 6 }}
{{- end -}}

{{- define "adit.podSpec" -}}
{{- $end := eq (include "adit.sessionsAtStop" .) "end" -}}
automountServiceAccountToken: false
terminationGracePeriodSeconds: {{ ternary (add (int .Values.stop.drainSeconds) 120) 60 $end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
affinity: {{- .Values.affinity | default (include "adit.affinity" . | fromYaml) | toYaml | nindent 2 }}
containers:
  - name: adit
    image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command: [/bin/sh, -c, "/etc/adit/configure.sh && exec adit run --config /run/adit/adit.toml --log json"]
    env:
      - name: POD_NAME
        valueFrom: { fieldRef: { fieldPath: metadata.name } }
      - name: POD_IP
        valueFrom: { fieldRef: { fieldPath: status.podIP } }
    ports:
      - { name: api, containerPort: {{ .Values.api.port }} }
      {{- if not .Values.n4.addresses }}
      - { name: n4, containerPort: 8805, protocol: UDP }
      {{- end }}
    # adit restores its sessions before it is alive.
    startupProbe: {{- include "adit.probe" (dict "path" "/healthz") | nindent 6 }}
      periodSeconds: 2
      failureThreshold: 150
    livenessProbe: {{- include "adit.probe" (dict "path" "/healthz") | nindent 6 }}
      periodSeconds: 5
    # The waiting pod of a pair is never ready in the sense of /readyz.
    readinessProbe: {{- include "adit.probe" (dict "path" (ternary "/healthz" "/readyz" .Values.standby.enabled)) | nindent 6 }}
      periodSeconds: 2
    {{- if not .Values.standby.enabled }}
    lifecycle:
      preStop:
        exec: { command: [/etc/adit/stop.sh] }
    {{- end }}
    resources:
      requests: {{- include "adit.resources" . | nindent 8 }}
      limits: {{- include "adit.resources" . | nindent 8 }}
    securityContext:
      runAsUser: 0
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities:
        drop: [ALL]
        add: {{ include "adit.capabilities" . }}
    volumeMounts: {{- include "adit.mounts" . | nindent 6 }}
volumes: {{- include "adit.volumes" . | nindent 2 }}
{{- end -}}

{{- define "adit.mounts" -}}
- { name: config, mountPath: /etc/adit, readOnly: true }
- { name: run, mountPath: /run }
- { name: api, mountPath: /etc/adit-api, readOnly: true }
- { name: tokens, mountPath: /etc/adit-tokens, readOnly: true }
{{- if .Values.hugepages.totalMi }}
- { name: hugepages, mountPath: /dev/hugepages }
{{- end }}
{{- if eq .Values.store.kind "journal" }}
- { name: store, mountPath: /var/lib/adit }
{{- end }}
{{- if and (eq .Values.store.kind "redis") .Values.store.redis.passwordSecret }}
- { name: store-password, mountPath: /etc/adit-store, readOnly: true }
{{- end }}
{{- if and (eq .Values.store.kind "redis") .Values.store.redis.tlsSecret }}
- { name: store-tls, mountPath: /etc/adit-store-tls, readOnly: true }
{{- end }}
{{- end -}}

{{/* adit refuses keys, tokens and passwords that others can read. */}}
{{- define "adit.volumes" -}}
- name: config
  configMap: { name: {{ include "adit.fullname" . }}, defaultMode: 0555 }
- name: run
  emptyDir: { medium: Memory, sizeLimit: 16Mi }
- name: api
  secret: { secretName: {{ .Values.api.tlsSecret | default (include "adit.apiSecret" .) }}, defaultMode: 0400 }
- name: tokens
  secret: { secretName: {{ .Values.api.tokensSecret | default (include "adit.apiSecret" .) }}, defaultMode: 0400 }
{{- if .Values.hugepages.totalMi }}
- name: hugepages
  emptyDir: { medium: HugePages-{{ .Values.hugepages.pageSize }} }
{{- end }}
{{- if and (eq .Values.store.kind "redis") .Values.store.redis.passwordSecret }}
- name: store-password
  secret: { secretName: {{ .Values.store.redis.passwordSecret }}, defaultMode: 0400 }
{{- end }}
{{- if and (eq .Values.store.kind "redis") .Values.store.redis.tlsSecret }}
- name: store-tls
  secret: { secretName: {{ .Values.store.redis.tlsSecret }}, defaultMode: 0400 }
{{- end }}
{{- end -}}
