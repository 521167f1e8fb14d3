{{/* Arithmetic of addresses. An address is a map: its groups (4 of 8 bits, or 8 of 16), bits of a group, and prefix length. */}}

{{/* Parses `text`, an address with a prefix length, of the value `path`. */}}
{{- define "adit.address" -}}
{{- $parts := splitList "/" .text -}}
{{- if ne (len $parts) 2 }}{{ fail (printf "%s: %q has no prefix length: write it as 10.0.3.10/24" .path .text) }}{{ end -}}
{{- $groups := list -}}
{{- $bits := 8 -}}
{{- $address := index $parts 0 -}}
{{- if contains ":" $address -}}
  {{- $bits = 16 -}}
  {{- $halves := splitList "::" $address -}}
  {{- $front := without (splitList ":" (first $halves)) "" -}}
  {{- $back := list -}}
  {{- if eq (len $halves) 2 }}{{ $back = without (splitList ":" (last $halves)) "" }}{{ end -}}
  {{- range $front }}{{ $groups = append $groups (int64 (printf "0x%s" .)) }}{{ end -}}
  {{- if eq (len $halves) 2 -}}
    {{- range until (int (max 0 (sub 8 (add (len $front) (len $back))))) }}{{ $groups = append $groups 0 }}{{ end -}}
  {{- end -}}
  {{- range $back }}{{ $groups = append $groups (int64 (printf "0x%s" .)) }}{{ end -}}
{{- else -}}
  {{- range splitList "." $address }}{{ $groups = append $groups (int64 .) }}{{ end -}}
{{- end -}}
{{- $length := int (index $parts 1) -}}
{{- $count := ternary 4 8 (eq $bits 8) -}}
{{- if or (ne (len $groups) $count) (gt $length (mul $count $bits | int)) -}}
  {{- fail (printf "%s: %q is no address with a prefix length" .path .text) -}}
{{- end -}}
{{- range $groups -}}
  {{- if ge (int64 .) (ternary 256 65536 (eq $bits 8) | int64) }}{{ fail (printf "%s: %q is no address with a prefix length" $.path $.text) }}{{ end -}}
{{- end -}}
{{- dict "groups" $groups "bits" $bits "length" $length | toJson -}}
{{- end -}}

{{/* 2 to the power of `.`, 0 to 16. */}}
{{- define "adit.power" -}}
{{- $power := 1 -}}
{{- range until (int .) }}{{ $power = mul $power 2 }}{{ end -}}
{{- $power -}}
{{- end -}}

{{/* `address` with all bits behind `length` zero. */}}
{{- define "adit.network" -}}
{{- $bits := int .address.bits -}}
{{- $length := int .length -}}
{{- $groups := list -}}
{{- range $at, $group := .address.groups -}}
  {{- $kept := sub $length (mul $at $bits) | int -}}
  {{- if ge $kept $bits -}}
    {{- $groups = append $groups (int64 $group) -}}
  {{- else if le $kept 0 -}}
    {{- $groups = append $groups 0 -}}
  {{- else -}}
    {{- $unit := include "adit.power" (sub $bits $kept) | int64 -}}
    {{- $groups = append $groups (sub (int64 $group) (mod (int64 $group) $unit)) -}}
  {{- end -}}
{{- end -}}
{{- dict "groups" $groups "bits" $bits "length" $length | toJson -}}
{{- end -}}

{{/* `address` plus `count` prefixes of `length`. */}}
{{- define "adit.advance" -}}
{{- $bits := int .address.bits -}}
{{- $base := include "adit.power" $bits | int64 -}}
{{- $at := div (sub (int .length) 1) $bits | int -}}
{{- $unit := include "adit.power" (sub (sub $bits 1) (mod (sub (int .length) 1) $bits)) | int64 -}}
{{- $carry := mul (int64 .count) $unit -}}
{{- $groups := list -}}
{{- range $back := until (len .address.groups) -}}
  {{- $index := sub (sub (len $.address.groups) 1) $back | int -}}
  {{- $group := index $.address.groups $index | int64 -}}
  {{- if le $index $at -}}
    {{- $sum := add $group $carry -}}
    {{- $group = mod $sum $base -}}
    {{- $carry = div $sum $base -}}
  {{- end -}}
  {{- $groups = prepend $groups $group -}}
{{- end -}}
{{- dict "groups" $groups "bits" $bits "length" (int .address.length) | toJson -}}
{{- end -}}

{{/* The text of an address, without its prefix length. */}}
{{- define "adit.addressText" -}}
{{- $is4 := eq (int .bits) 8 -}}
{{- $texts := list -}}
{{- range .groups }}{{ $texts = append $texts (printf (ternary "%d" "%x" $is4) (int64 .)) }}{{ end -}}
{{- if $is4 -}}
  {{- join "." $texts -}}
{{- else -}}
  {{- $text := regexReplaceAll "(:0){2,}$" (join ":" $texts) "::" -}}
  {{- if not (contains "::" $text) }}{{ $text = regexReplaceAll "^(.*?[^:0][^:]*|.*?0[^:]+):(0:){2,}" $text "${1}::" }}{{ end -}}
  {{- $text -}}
{{- end -}}
{{- end -}}

{{/* The address of replica `ordinal`, with its prefix length: `text` is that of replica 0. */}}
{{- define "adit.addressOf" -}}
{{- $first := include "adit.address" . | fromJson -}}
{{- $own := include "adit.advance" (dict "address" $first "length" (mul (len $first.groups) (int $first.bits)) "count" .ordinal) | fromJson -}}
{{- $link := include "adit.network" (dict "address" $first "length" $first.length) -}}
{{- if ne $link (include "adit.network" (dict "address" $own "length" $first.length)) -}}
  {{- fail (printf "%s: %q leaves no address on its link for replica %d: take a lower first address or a shorter prefix" .path .text (int .ordinal)) -}}
{{- end -}}
{{- printf "%s/%d" (include "adit.addressText" $own) (int $first.length) -}}
{{- end -}}

{{/* The pool of replica `ordinal`: the prefix of `pool`, which is at `path`. */}}
{{- define "adit.poolOf" -}}
{{- $ordinal := int .ordinal -}}
{{- $pool := .pool -}}
{{- if $pool.prefixes -}}
  {{- if ge $ordinal (len $pool.prefixes) -}}
    {{- fail (printf "%s has %d prefixes, and none is left for replica %d: add one for each replica" .path (len $pool.prefixes) $ordinal) -}}
  {{- end -}}
  {{- index $pool.prefixes $ordinal -}}
{{- else -}}
  {{- $base := include "adit.address" (dict "text" $pool.prefix "path" (printf "%s.prefix" .path)) | fromJson -}}
  {{- $length := int $pool.replicaLength -}}
  {{- $spare := sub $length (int $base.length) | int -}}
  {{- $most := ternary 32 64 (eq (int $base.bits) 8) -}}
  {{- if or (lt $spare 0) (gt $length $most) -}}
    {{- fail (printf "%s.replicaLength: %d is no length of a part of %s: take %d to %d" .path $length $pool.prefix (int $base.length) $most) -}}
  {{- end -}}
  {{- if and (lt $spare 16) (ge $ordinal (include "adit.power" $spare | int)) -}}
    {{- fail (printf "%s: %s holds %s prefixes of length %d, and none is left for replica %d: take a shorter prefix or a longer replicaLength" .path $pool.prefix (include "adit.power" $spare) $length $ordinal) -}}
  {{- end -}}
  {{- $own := include "adit.advance" (dict "address" $base "length" $length "count" $ordinal) | fromJson -}}
  {{- printf "%s/%d" (include "adit.addressText" $own) $length -}}
{{- end -}}
{{- end -}}

{{/* Fails if two replicas or two pools would have an address or a range of TEIDs in common. */}}
{{- define "adit.checkDisjoint" -}}
{{- $prefixes := list -}}
{{- range $index, $pool := .Values.pools -}}
  {{- $path := printf "pools[%d]" $index -}}
  {{- $texts := $pool.prefixes | default (list $pool.prefix) -}}
  {{- range $at, $text := $texts -}}
    {{- $address := include "adit.address" (dict "text" $text "path" $path) | fromJson -}}
    {{- if ne (toJson $address.groups) (toJson (include "adit.network" (dict "address" $address "length" $address.length) | fromJson).groups) -}}
      {{- fail (printf "%s: %s has bits behind its prefix length: write the first address of the prefix" $path $text) -}}
    {{- end -}}
    {{- $prefixes = append $prefixes (dict "path" $path "text" $text "address" $address "network" ($pool.networkInstance | default "")) -}}
  {{- end -}}
{{- end -}}
{{- range $index, $one := $prefixes -}}
  {{- range $other := slice $prefixes (int (add $index 1)) -}}
    {{- if and (eq $one.network $other.network) (eq (int $one.address.bits) (int $other.address.bits)) -}}
      {{- $length := min (int $one.address.length) (int $other.address.length) -}}
      {{- if eq (include "adit.network" (dict "address" $one.address "length" $length)) (include "adit.network" (dict "address" $other.address "length" $length)) -}}
        {{- fail (printf "%s and %s overlap: %s and %s have addresses in common, so two UEs could get the same one; take other prefixes" $one.path $other.path $one.text $other.text) -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- $ranges := include "adit.power" .Values.teidRangeBits | int -}}
{{- if and .Values.teidRangeBits (gt (mul 2 (int .Values.sessionsMax) $ranges) 16777216) -}}
  {{- fail (printf "teidRangeBits: %d bits leave the TEIDs of sessionsMax = %d sessions too few: take fewer bits, or 0" (int .Values.teidRangeBits) (int .Values.sessionsMax)) -}}
{{- end -}}
{{- if and .Values.teidRangeBits (gt (int .Values.replicas) $ranges) -}}
  {{- fail (printf "teidRangeBits: %d bits have %d ranges, and none is left for replica %d: take more bits, or 0" (int .Values.teidRangeBits) $ranges $ranges) -}}
{{- end -}}
{{- $owners := dict -}}
{{- range $ordinal := until (int .Values.replicas) -}}
  {{- range $path, $texts := include "adit.addressLists" $ | fromJson -}}
    {{- range $texts -}}
      {{- $address := include "adit.addressOf" (dict "text" . "path" $path "ordinal" $ordinal) -}}
      {{- $own := printf "%s of replica %d" $path $ordinal -}}
      {{- if hasKey $owners $address -}}
        {{- fail (printf "%s and %s have the same address %s: take first addresses that are at least as far apart as there are replicas" (get $owners $address) $own $address) -}}
      {{- end -}}
      {{- $_ := set $owners $address $own -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{/* All lists of first addresses, by the path of their value. */}}
{{- define "adit.addressLists" -}}
{{- $lists := dict "n4.addresses" .Values.n4.addresses -}}
{{- range .Values.interfaces }}{{ $_ := set $lists (printf "interfaces.%s.addresses" .name) .addresses }}{{ end -}}
{{- toJson $lists -}}
{{- end -}}
