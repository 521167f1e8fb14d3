package main

import (
	"encoding/binary"
	"fmt"
	"net"
)

// Protocol numbers.
const (
	protocolICMP   = 1
	protocolUDP    = 17
	protocolICMPv6 = 58
)

// packet has the fields of an IP packet that the ends check.
type packet struct {
	src, dst net.IP
	protocol byte
	hopLimit byte
	// srcPort and dstPort are the UDP ports.
	srcPort, dstPort uint16
	// payload is the UDP payload, or the whole ICMP message.
	payload []byte
}

func checksum(parts ...[]byte) uint16 {
	var sum uint32
	for _, part := range parts {
		for i := 0; i+1 < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
		if len(part)%2 == 1 {
			sum += uint32(part[len(part)-1]) << 8
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// pseudo is the pseudo header of transport checksums.
func pseudo(src, dst net.IP, protocol byte, length int) []byte {
	if src.To4() != nil {
		return append(append(append([]byte{}, src.To4()...), dst.To4()...),
			0, protocol, byte(length>>8), byte(length))
	}
	head := append(append([]byte{}, src.To16()...), dst.To16()...)
	return append(head, 0, 0, byte(length>>8), byte(length), 0, 0, 0, protocol)
}

// ipPacket is an IP packet with this transport header and payload.
func ipPacket(src, dst net.IP, protocol, hopLimit byte, body []byte) []byte {
	if src.To4() == nil {
		head := []byte{0x60, 0, 0, 0, 0, 0, protocol, hopLimit}
		binary.BigEndian.PutUint16(head[4:], uint16(len(body)))
		return append(append(append(head, src.To16()...), dst.To16()...), body...)
	}
	head := make([]byte, 20, 20+len(body))
	head[0] = 0x45
	binary.BigEndian.PutUint16(head[2:], uint16(20+len(body)))
	head[6] = 0x40
	head[8], head[9] = hopLimit, protocol
	copy(head[12:], src.To4())
	copy(head[16:], dst.To4())
	binary.BigEndian.PutUint16(head[10:], checksum(head))
	return append(head, body...)
}

// udpPacket is a UDP datagram in an IP packet of the addresses' family.
func udpPacket(src, dst net.IP, srcPort, dstPort uint16, payload []byte) []byte {
	body := make([]byte, 8, 8+len(payload))
	binary.BigEndian.PutUint16(body, srcPort)
	binary.BigEndian.PutUint16(body[2:], dstPort)
	binary.BigEndian.PutUint16(body[4:], uint16(8+len(payload)))
	body = append(body, payload...)
	binary.BigEndian.PutUint16(body[6:], checksum(pseudo(src, dst, protocolUDP, len(body)), body))
	return ipPacket(src, dst, protocolUDP, 64, body)
}

// icmpPacket is an ICMP or ICMPv6 message; rest is everything after the checksum.
func icmpPacket(src, dst net.IP, hopLimit, kind byte, rest []byte) []byte {
	body := append([]byte{kind, 0, 0, 0}, rest...)
	if src.To4() != nil {
		binary.BigEndian.PutUint16(body[2:], checksum(body))
		return ipPacket(src, dst, protocolICMP, hopLimit, body)
	}
	binary.BigEndian.PutUint16(body[2:], checksum(pseudo(src, dst, protocolICMPv6, len(body)), body))
	return ipPacket(src, dst, protocolICMPv6, hopLimit, body)
}

// readPacket reads an IP packet without extension headers; the transport checksum must be valid.
func readPacket(octets []byte) (*packet, error) {
	var p packet
	var body []byte
	switch {
	case len(octets) >= 20 && octets[0]>>4 == 4:
		head := int(octets[0]&15) * 4
		total := int(binary.BigEndian.Uint16(octets[2:]))
		if head < 20 || total < head || total > len(octets) || checksum(octets[:head]) != 0 {
			return nil, fmt.Errorf("bad IPv4 header %x", octets)
		}
		p.src, p.dst = net.IP(octets[12:16]), net.IP(octets[16:20])
		p.hopLimit, p.protocol, body = octets[8], octets[9], octets[head:total]
	case len(octets) >= 40 && octets[0]>>4 == 6:
		total := 40 + int(binary.BigEndian.Uint16(octets[4:]))
		if total > len(octets) {
			return nil, fmt.Errorf("bad IPv6 header %x", octets)
		}
		p.src, p.dst = net.IP(octets[8:24]), net.IP(octets[24:40])
		p.protocol, p.hopLimit, body = octets[6], octets[7], octets[40:total]
	default:
		return nil, fmt.Errorf("no IP packet: %x", octets)
	}
	return &p, p.readTransport(body)
}

func (p *packet) readTransport(body []byte) error {
	p.payload = body
	if len(body) < 8 {
		return fmt.Errorf("transport header of %d octets", len(body))
	}
	head := pseudo(p.src, p.dst, p.protocol, len(body))
	if p.protocol == protocolICMP {
		head = nil
	}
	if checksum(head, body) != 0 {
		return fmt.Errorf("bad checksum of protocol %d: %x", p.protocol, body)
	}
	if p.protocol == protocolUDP {
		p.srcPort, p.dstPort = binary.BigEndian.Uint16(body), binary.BigEndian.Uint16(body[2:])
		p.payload = body[8:]
	}
	return nil
}
