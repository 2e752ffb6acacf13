{{- define "meantime.labels" -}}
app.kubernetes.io/name: meantime
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* Labels of one kind of process; (list . "node") */}}
{{- define "meantime.selector" -}}
{{- $ := index . 0 -}}
app.kubernetes.io/name: meantime
app.kubernetes.io/instance: {{ $.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "meantime.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* A variable from a secret that may be left out; (list "MEANTIME_X" secret) */}}
{{- define "meantime.secret" -}}
{{- $secret := index . 1 -}}
{{- if and $secret $secret.name }}
- name: {{ index . 0 }}
  valueFrom: {secretKeyRef: {name: {{ $secret.name | quote }}, key: {{ $secret.key | quote }}}}
{{- end }}
{{- end }}

{{/* What every process is told. */}}
{{- define "meantime.environment" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: MEANTIME_ZOOKEEPER
  value: {{ .Values.zookeeper | quote }}
- name: MEANTIME_KAFKA
  value: {{ .Values.kafka | quote }}
{{- include "meantime.secret" (list "MEANTIME_POSTGRES" .Values.secrets.postgres) }}
{{- include "meantime.secret" (list "MEANTIME_ZOOKEEPER_AUTH" .Values.secrets.zookeeperAuth) }}
{{- include "meantime.secret" (list "MEANTIME_KAFKA_SETTINGS" .Values.secrets.kafkaSettings) }}
{{- range $key, $value := .Values.settings }}
- name: MEANTIME_{{ upper $key }}
  value: {{ if kindIs "float64" $value }}{{ $value | toJson | quote }}{{ else }}{{ $value | toString | quote }}{{ end }}
{{- end }}
{{- end }}

{{- define "meantime.pod" -}}
automountServiceAccountToken: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Not two of a kind on one machine, if there are others; (list . "node") */}}
{{- define "meantime.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "meantime.selector" . | nindent 8 }}
{{- end }}

{{- define "meantime.rights" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}
