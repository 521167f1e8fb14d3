package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"
)

// GTP-U message types. Spec: TS 29.281 §6.1.
const (
	gtpuEchoRequest     = 1
	gtpuEchoResponse    = 2
	gtpuErrorIndication = 26
	gtpuEndMarker       = 254
	gtpuPDU             = 255
	gtpuPort            = 2152
	// noQFI means no PDU Session Container.
	noQFI = -1
)

// tunnel is an F-TEID of one family.
type tunnel struct {
	teid uint32
	addr net.IP
}

// tunneled is a GTP-U message as it arrived.
type tunneled struct {
	kind byte
	teid uint32
	qfi  int
	// body is the inner packet, or the IEs of a signaling message.
	body []byte
}

func (t *tunneled) String() string {
	return fmt.Sprintf("GTP-U message %d, TEID %#x, QFI %d: %x", t.kind, t.teid, t.qfi, t.body)
}

// Node is a GTP-U entity: a gNB, an eNB, another UPF, or the user plane of an SMF. It answers Echo
// Requests itself and queues everything else in the order of arrival.
type Node struct {
	v4, v6 net.IP
	inbox  chan *tunneled
	conns  []*net.UDPConn
	// nextTEID is the TEID of the next tunnel.
	nextTEID uint32
}

// newNode binds the GTP-U port of the addresses. The TEIDs of its tunnels follow base.
func newNode(base uint32, addrs ...net.IP) (*Node, error) {
	n := &Node{inbox: make(chan *tunneled, inboxSize), nextTEID: base}
	for _, addr := range addrs {
		network := "udp6"
		if addr.To4() != nil {
			network, n.v4 = "udp4", addr
		} else {
			n.v6 = addr
		}
		conn, err := net.ListenUDP(network, &net.UDPAddr{IP: addr, Port: gtpuPort})
		if err != nil {
			return nil, err
		}
		n.conns = append(n.conns, conn)
		go n.read(conn)
	}
	return n, nil
}

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }

func (n *Node) read(conn *net.UDPConn) {
	for {
		buffer := make([]byte, pfcpDatagramMax)
		length, from, err := conn.ReadFromUDP(buffer)
		if err != nil {
			if isClosed(err) {
				return
			}
			continue
		}
		got := readGTPU(buffer[:length])
		switch got.kind {
		case gtpuEchoRequest:
			// The sequence number of the request, and a Recovery IE of zero.
			answer := append([]byte{0x32, gtpuEchoResponse, 0, 6, 0, 0, 0, 0}, buffer[8], buffer[9], 0, 0, 14, 0)
			_, _ = conn.WriteToUDP(answer, from)
		case gtpuEchoResponse:
		default:
			n.inbox <- got
		}
	}
}

// readGTPU reads a GTP-U message; a malformed one becomes kind 0 with all its octets.
func readGTPU(octets []byte) *tunneled {
	bad := &tunneled{kind: 0, qfi: noQFI, body: octets}
	if len(octets) < 8 || octets[0]>>4 != 3 || int(binary.BigEndian.Uint16(octets[2:]))+8 != len(octets) {
		return bad
	}
	got := &tunneled{kind: octets[1], teid: binary.BigEndian.Uint32(octets[4:]), qfi: noQFI, body: octets[8:]}
	if octets[0]&7 == 0 {
		return got
	}
	if len(octets) < 12 {
		return bad
	}
	next, rest := octets[11], octets[12:]
	if octets[0]&4 == 0 {
		next = 0
	}
	for next != 0 {
		if len(rest) < 4 || rest[0] == 0 || len(rest) < int(rest[0])*4 {
			return bad
		}
		size := int(rest[0]) * 4
		// PDU Session Container. Spec: TS 38.415 §5.5.2.
		if next == 0x85 {
			got.qfi = int(rest[2] & 0x3f)
		}
		next, rest = rest[size-1], rest[size:]
	}
	got.body = rest
	return got
}

// gtpuMessage is a G-PDU or End Marker with an uplink PDU Session Container, unless qfi is noQFI.
func gtpuMessage(kind byte, teid uint32, pduType byte, qfi int, body []byte) []byte {
	out := append([]byte{0x30, kind, 0, 0}, u32(teid)...)
	if qfi != noQFI {
		out[0] |= 4
		out = append(out, 0, 0, 0, 0x85, 1, pduType<<4, byte(qfi), 0)
	}
	out = append(out, body...)
	binary.BigEndian.PutUint16(out[2:], uint16(len(out)-8))
	return out
}

// send sends octets to the UPF's GTP-U port.
func (n *Node) send(to net.IP, octets []byte) error {
	for _, conn := range n.conns {
		local := conn.LocalAddr().(*net.UDPAddr).IP
		if (local.To4() != nil) == (to.To4() != nil) {
			_, err := conn.WriteToUDP(octets, &net.UDPAddr{IP: to, Port: gtpuPort})
			return err
		}
	}
	return fmt.Errorf("no address of the family of %v", to)
}

// uplink sends an inner packet into a tunnel of the UPF.
func (n *Node) uplink(to tunnel, qfi int, inner []byte) error {
	return n.send(to.addr, gtpuMessage(gtpuPDU, to.teid, 1, qfi, inner))
}

// downlink sends an inner packet into a tunnel of the UPF as a user plane function or a source gNB
// does: with a downlink PDU Session Container, if any.
func (n *Node) downlink(to tunnel, qfi int, inner []byte) error {
	return n.send(to.addr, gtpuMessage(gtpuPDU, to.teid, 0, qfi, inner))
}

// tunnel allocates a tunnel of this node over IPv4.
func (n *Node) tunnel() tunnel {
	n.nextTEID++
	return tunnel{n.nextTEID, n.v4}
}

// next returns the next message.
func (n *Node) next() (*tunneled, error) {
	select {
	case got := <-n.inbox:
		return got, nil
	case <-time.After(arrivalTimeout):
		return nil, fmt.Errorf("nothing arrives at %v", n.v4)
	}
}

// expect checks that the next message is a packet of this tunnel and QFI, and returns it.
func (n *Node) expect(teid uint32, qfi int) (*packet, error) {
	got, err := n.next()
	if err != nil {
		return nil, err
	}
	if got.kind != gtpuPDU || got.teid != teid || got.qfi != qfi {
		return nil, fmt.Errorf("at %v not TEID %#x, QFI %d: %v", n.v4, teid, qfi, got)
	}
	return readPacket(got.body)
}

// endMarkers checks that the next messages are so many End Markers of the tunnel and nothing else.
func (n *Node) endMarkers(teid uint32, count int) error {
	for number := range count {
		got, err := n.next()
		if err != nil {
			return fmt.Errorf("End Marker %d: %w", number+1, err)
		}
		if got.kind != gtpuEndMarker || got.teid != teid {
			return fmt.Errorf("not End Marker %d of TEID %#x: %v", number+1, teid, got)
		}
	}
	return nil
}

// quiet checks that no further message has arrived.
func (n *Node) quiet() error {
	select {
	case got := <-n.inbox:
		return fmt.Errorf("at %v arrived unexpectedly: %v", n.v4, got)
	default:
		return nil
	}
}

// errorIndication tells the UPF that the tunnel does not exist at this node.
func (n *Node) errorIndication(to net.IP, teid uint32) error {
	body := append([]byte{16}, u32(teid)...)
	body = append(append(body, 133, 0, 4), n.v4.To4()...)
	octets := []byte{0x32, gtpuErrorIndication, 0, byte(4 + len(body)), 0, 0, 0, 0, 0, 1, 0, 0}
	return n.send(to, append(octets, body...))
}
