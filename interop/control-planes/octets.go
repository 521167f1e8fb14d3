package main

import (
	"encoding/binary"
	"encoding/hex"
	"net"
	"slices"
)

// IE types that the profiles send. Spec: TS 29.244 §8.1.2.
const (
	ieCreatePDR           = 1
	iePDI                 = 2
	ieCreateFAR           = 3
	ieForwarding          = 4
	ieCreateURR           = 6
	ieCreateQER           = 7
	ieUpdatePDR           = 9
	ieUpdateFAR           = 10
	ieUpdateForwarding    = 11
	ieUpdateURR           = 13
	ieUpdateQER           = 14
	ieRemovePDR           = 15
	ieRemoveFAR           = 16
	ieRemoveURR           = 17
	ieRemoveQER           = 18
	ieCause               = 19
	ieSourceInterface     = 20
	ieFTEID               = 21
	ieNetworkInstance     = 22
	ieSDFFilter           = 23
	ieGateStatus          = 25
	ieMBR                 = 26
	ieGBR                 = 27
	iePrecedence          = 29
	ieVolumeThreshold     = 31
	ieTimeThreshold       = 32
	ieReportingTriggers   = 37
	ieDestination         = 42
	ieApplyAction         = 44
	ieSMFlags             = 49
	ieSRRspFlags          = 50
	iePDRID               = 56
	ieFSEID               = 57
	ieNodeID              = 60
	ieMeasurementMethod   = 62
	ieMeasurementPeriod   = 64
	ieVolumeQuota         = 73
	ieQueryURR            = 77
	ieURRID               = 81
	ieOuterHeaderCreation = 84
	ieCreateBAR           = 85
	ieBARID               = 88
	ieCPFeatures          = 89
	ieUEIPAddress         = 93
	ieOuterHeaderRemoval  = 95
	ieRecoveryTimeStamp   = 96
	ieMeasurementInfo     = 100
	ieFARID               = 108
	ieQERID               = 109
	iePDNType             = 113
	ieQFI                 = 124
	ieUserID              = 141
	ieAPNDNN              = 159
	ieInterfaceType       = 160
	ieQuotaValidityTime   = 181
	ieSEReqFlags          = 186
	ieSNSSAI              = 257
)

// tlv is an IE whose value is the concatenation of the parts.
func tlv(kind uint16, parts ...[]byte) []byte {
	value := slices.Concat(parts...)
	head := make([]byte, 4, 4+len(value))
	binary.BigEndian.PutUint16(head, kind)
	binary.BigEndian.PutUint16(head[2:], uint16(len(value)))
	return append(head, value...)
}

// hx decodes hexadecimal digits.
func hx(digits string) []byte {
	octets, err := hex.DecodeString(digits)
	if err != nil {
		panic(err)
	}
	return octets
}

func u16(v uint16) []byte { return binary.BigEndian.AppendUint16(nil, v) }
func u32(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }
func u64(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

// v4 and v6 are the octets of an address of that family.
func v4(ip net.IP) []byte { return ip.To4() }
func v6(ip net.IP) []byte { return ip.To16() }

func pdrID(id uint16) []byte   { return tlv(iePDRID, u16(id)) }
func farID(id uint32) []byte   { return tlv(ieFARID, u32(id)) }
func qerID(id uint32) []byte   { return tlv(ieQERID, u32(id)) }
func urrID(id uint32) []byte   { return tlv(ieURRID, u32(id)) }
func barID(id byte) []byte     { return tlv(ieBARID, []byte{id}) }
func qfiIE(qfi byte) []byte    { return tlv(ieQFI, []byte{qfi}) }
func source(i byte) []byte     { return tlv(ieSourceInterface, []byte{i}) }
func dest(i byte) []byte       { return tlv(ieDestination, []byte{i}) }
func prec(v uint32) []byte     { return tlv(iePrecedence, u32(v)) }
func action(hex string) []byte { return tlv(ieApplyAction, hx(hex)) }

// label is a Network Instance or DNN as labels; text is one as plain text.
func label(kind uint16, name string) []byte {
	return tlv(kind, []byte{byte(len(name))}, []byte(name))
}
func text(kind uint16, name string) []byte { return tlv(kind, []byte(name)) }

// interfaceType is a 3GPP Interface Type.
func interfaceType(v byte) []byte { return tlv(ieInterfaceType, []byte{v}) }

// rates is an MBR or GBR, equal for uplink and downlink. Unit: kbit/s.
func rates(kind uint16, kbps uint64) []byte {
	five := u64(kbps)[3:]
	return tlv(kind, five, five)
}

// sdfText is an SDF Filter with only a Flow Description.
func sdfText(flow string) []byte {
	return tlv(ieSDFFilter, hx("0100"), u16(uint16(len(flow))), []byte(flow))
}

// sdfDefined is an SDF Filter with a Flow Description and its identifier; sdfNamed has only the identifier.
func sdfDefined(flow string, id uint32) []byte {
	return tlv(ieSDFFilter, hx("1100"), u16(uint16(len(flow))), []byte(flow), u32(id))
}
func sdfNamed(id uint32) []byte { return tlv(ieSDFFilter, hx("1000"), u32(id)) }

// outerV4 is an Outer Header Creation of GTP-U over IPv4.
func outerV4(t tunnel) []byte {
	return tlv(ieOuterHeaderCreation, hx("0100"), u32(t.teid), v4(t.addr))
}

// group makes functions for grouped IEs that start with the ID of a rule.
func group(kind uint16) func(parts ...[]byte) []byte {
	return func(parts ...[]byte) []byte { return tlv(kind, parts...) }
}

var (
	createPDR, updatePDR, removePDR = group(ieCreatePDR), group(ieUpdatePDR), group(ieRemovePDR)
	createFAR, updateFAR, removeFAR = group(ieCreateFAR), group(ieUpdateFAR), group(ieRemoveFAR)
	createURR, updateURR, removeURR = group(ieCreateURR), group(ieUpdateURR), group(ieRemoveURR)
	createQER, updateQER, removeQER = group(ieCreateQER), group(ieUpdateQER), group(ieRemoveQER)
	pdi, fp, ufp                    = group(iePDI), group(ieForwarding), group(ieUpdateForwarding)
)

// header has the variable octets of a message header.
type header struct {
	// flags is the first octet: version 1 with S (01) and MP (02).
	flags byte
	// last is the octet after the sequence number: message priority and spare bits.
	last byte
}

// plain is a header without SEID; session has a SEID.
var plain, session = header{flags: 0x20}, header{flags: 0x21}

// message is a datagram of these IEs.
func (h header) message(kind byte, seid uint64, sequence uint32, ies ...[]byte) []byte {
	body := slices.Concat(ies...)
	out := []byte{h.flags, kind, 0, 0}
	if h.flags&1 != 0 {
		out = append(out, u64(seid)...)
	}
	out = append(out, u32(sequence)[1:]...)
	out = append(out, h.last)
	out = append(out, body...)
	binary.BigEndian.PutUint16(out[2:], uint16(len(out)-4))
	return out
}
