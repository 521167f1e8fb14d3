package main

import (
	"bytes"
	"fmt"
	"net"
	"time"
)

// The network that `crates/tests/src/control_planes.rs` creates. One namespace has everything except
// the UPFs: control planes, RAN and data networks.
var (
	upfN4   = net.IPv4(10, 0, 4, 2)
	upfN3   = net.IPv4(10, 0, 3, 2)
	upfN3v6 = net.ParseIP("2001:db8:3::2")
	upfN9   = net.IPv4(10, 0, 9, 2)

	// The second UPF, behind N9, of the profiles with two. Its data network is that of imsAddr.
	anchorN4 = net.IPv4(10, 0, 4, 5)
	anchorN9 = net.IPv4(10, 0, 9, 3)

	smfAddr  = net.IPv4(10, 0, 4, 1)
	sgwcAddr = net.IPv4(10, 0, 4, 3)

	gnbAddr     = net.IPv4(10, 0, 3, 1)
	gnbAddrV6   = net.ParseIP("2001:db8:3::1")
	targetAddr  = net.IPv4(10, 0, 3, 3)
	targetV6    = net.ParseIP("2001:db8:3::3")
	anotherAddr = net.IPv4(10, 0, 3, 9)

	dnAddr   = net.IPv4(10, 0, 6, 1)
	imsAddr  = net.IPv4(10, 0, 7, 1)
	imsV6    = net.ParseIP("2001:db8:7::1")
	dnAddrV6 = net.ParseIP("2001:db8:6::1")

	// fixedUE is the UE of cases in which the UPF knows no UE address.
	fixedUE = net.IPv4(10, 45, 9, 9)
)

const (
	// Timeout for expected events, long enough for machines under load.
	arrivalTimeout  = 20 * time.Second
	requestTimeout  = 3 * time.Second
	requestAttempts = 5
	// Ports of the UEs and of the two servers.
	uePort     = 40000
	serverPort = 5001
	flowPort   = 5050
	dnn        = "internet"
	imsDNN     = "ims"
	routerAddr = "fe80::1"
)

// World is everything around the UPF.
type World struct {
	gnb, target, another *Node
	server, flow         *Server
	serverV6             *Server
	// ims and imsV6 are in another data network, if there is one.
	ims, imsV6 *Server
	serial     int
	// smf is the control plane of the profile.
	smf *SMF
	// fence is a session besides that of the case. Once its packets arrive, all packets sent
	// before have arrived.
	fence *UE
}

// UE is a PDU session or PDN connection as the RAN and the data network see it.
type UE struct {
	v4, v6 net.IP
	// up is the UPF's tunnel, down the RAN's, at node.
	up, down tunnel
	node     *Node
	// qfi is the default QoS flow, or noQFI.
	qfi int
	// unmarked is true if downlink packets have no QFI.
	unmarked bool
}

// downQFI is the QFI of downlink packets of the default QoS flow.
func (ue *UE) downQFI() int {
	if ue.unmarked {
		return noQFI
	}
	return ue.qfi
}

func newWorld() (*World, error) {
	w := &World{}
	var err error
	if w.gnb, err = newNode(0x1000, gnbAddr, gnbAddrV6); err != nil {
		return nil, err
	}
	if w.target, err = newNode(0x2000, targetAddr, targetV6); err != nil {
		return nil, err
	}
	if w.another, err = newNode(0x9000, anotherAddr); err != nil {
		return nil, err
	}
	if w.server, err = newServer(dnAddr, serverPort); err != nil {
		return nil, err
	}
	if w.flow, err = newServer(dnAddr, flowPort); err != nil {
		return nil, err
	}
	w.serverV6, err = newServer(dnAddrV6, serverPort)
	return w, err
}

// text returns a unique payload.
func (w *World) text(what string) string {
	w.serial++
	return fmt.Sprintf("%s %d", what, w.serial)
}

// upTo sends one datagram from the UE to a server, which must receive it.
func (w *World) upTo(ue *UE, s *Server, qfi int) error {
	text := w.text("up")
	if err := w.sendUp(ue, s, qfi, text); err != nil {
		return err
	}
	return s.expect(ue.addrFor(s), text)
}

func (w *World) sendUp(ue *UE, s *Server, qfi int, text string) error {
	inner := udpPacket(ue.addrFor(s), s.addr.IP, uePort, uint16(s.addr.Port), []byte(text))
	return ue.node.uplink(ue.up, qfi, inner)
}

// addrFor returns the UE's address of the server's family.
func (ue *UE) addrFor(s *Server) net.IP {
	if s.addr.IP.To4() != nil {
		return ue.v4
	}
	return ue.v6
}

// downFrom sends one datagram from a server to the UE, which must arrive in its tunnel with the QFI.
func (w *World) downFrom(s *Server, ue *UE, qfi int) error {
	text := w.text("down")
	if err := s.send(ue.addrFor(s), uePort, text); err != nil {
		return err
	}
	return ue.receives(s, ue.down.teid, qfi, text)
}

// receives checks that a server's datagram is the next message in a tunnel at the UE's node.
func (ue *UE) receives(s *Server, teid uint32, qfi int, text string) error {
	got, err := ue.node.expect(teid, qfi)
	if err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	if string(got.payload) != text || !got.src.Equal(s.addr.IP) || !got.dst.Equal(ue.addrFor(s)) {
		return fmt.Errorf("not %q: %q of %v to %v", text, got.payload, got.src, got.dst)
	}
	return nil
}

// bothWays sends datagrams to and from every server that the UE has an address for, and pings.
func (w *World) bothWays(ue *UE) error {
	for _, s := range []*Server{w.server, w.serverV6} {
		if ue.addrFor(s) == nil {
			continue
		}
		if err := w.upTo(ue, s, ue.qfi); err != nil {
			return err
		}
		if err := w.downFrom(s, ue, ue.downQFI()); err != nil {
			return err
		}
		if err := w.pingFrom(ue, s.addr.IP); err != nil {
			return err
		}
		if err := w.pingTo(ue, s.addr.IP); err != nil {
			return err
		}
	}
	return nil
}

// pingFrom pings an address of the data network from the UE; the kernel there answers.
func (w *World) pingFrom(ue *UE, to net.IP) error {
	from, request, reply := ue.v4, byte(8), byte(0)
	if to.To4() == nil {
		from, request, reply = ue.v6, 128, 129
	}
	rest := append([]byte{0x77, 0x77, 0, 1}, w.text("ping from the UE")...)
	if err := ue.node.uplink(ue.up, ue.qfi, icmpPacket(from, to, 64, request, rest)); err != nil {
		return err
	}
	got, err := ue.node.expect(ue.down.teid, ue.downQFI())
	if err != nil {
		return fmt.Errorf("echo reply: %w", err)
	}
	if got.payload[0] != reply || !bytes.Equal(got.payload[4:], rest) {
		return fmt.Errorf("not the echo reply: %x", got.payload)
	}
	return nil
}

// pingTo pings the UE from the data network.
func (w *World) pingTo(ue *UE, from net.IP) error {
	network, to, request, reply := "ip4:icmp", ue.v4, byte(8), byte(0)
	if from.To4() == nil {
		network, to, request, reply = "ip6:ipv6-icmp", ue.v6, 128, 129
	}
	conn, err := net.ListenPacket(network, from.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	rest := append([]byte{0x66, 0x66, 0, 1}, w.text("ping to the UE")...)
	body := append([]byte{request, 0, 0, 0}, rest...)
	if from.To4() != nil {
		sum := checksum(body)
		body[2], body[3] = byte(sum>>8), byte(sum)
	}
	if _, err := conn.WriteTo(body, &net.IPAddr{IP: to}); err != nil {
		return err
	}
	got, err := ue.node.expect(ue.down.teid, ue.downQFI())
	if err != nil {
		return fmt.Errorf("echo request: %w", err)
	}
	if got.payload[0] != request || !bytes.Equal(got.payload[4:], rest) {
		return fmt.Errorf("not the echo request: %x", got.payload)
	}
	if err := ue.node.uplink(ue.up, ue.qfi, icmpPacket(to, from, 64, reply, rest)); err != nil {
		return err
	}
	return awaitReply(conn, reply, rest)
}

// awaitReply reads a raw socket until the reply; the socket receives other ICMP messages, too.
func awaitReply(conn net.PacketConn, reply byte, rest []byte) error {
	if err := conn.SetReadDeadline(time.Now().Add(arrivalTimeout)); err != nil {
		return err
	}
	buffer := make([]byte, pfcpDatagramMax)
	for {
		n, _, err := conn.ReadFrom(buffer)
		if err != nil {
			return fmt.Errorf("the UE's echo reply: %w", err)
		}
		if n > 4 && buffer[0] == reply && bytes.Equal(buffer[4:n], rest) {
			return nil
		}
	}
}

// servers returns all servers.
func (w *World) servers() []*Server {
	all := []*Server{w.server, w.flow, w.serverV6}
	if w.ims != nil {
		all = append(all, w.ims, w.imsV6)
	}
	return all
}

// settled checks that no unexpected packet arrived anywhere. The fence's packets pass both
// ways first, and all earlier packets arrive before them.
func (w *World) settled() error {
	if w.fence != nil {
		if err := w.upTo(w.fence, w.server, w.fence.qfi); err != nil {
			return fmt.Errorf("something else than the fence: %w", err)
		}
		if err := w.downFrom(w.server, w.fence, w.fence.downQFI()); err != nil {
			return fmt.Errorf("something else than the fence: %w", err)
		}
	}
	for _, node := range []*Node{w.gnb, w.target, w.another} {
		if err := node.quiet(); err != nil {
			return err
		}
	}
	for _, s := range w.servers() {
		if err := s.quiet(); err != nil {
			return err
		}
	}
	return nil
}

// clear empties every inbox, after a case that failed.
func (w *World) clear() {
	w.smf.forget()
	for _, node := range []*Node{w.gnb, w.target, w.another} {
		for node.quiet() != nil {
		}
	}
	for _, s := range w.servers() {
		for s.quiet() != nil {
		}
	}
}

// carries checks that datagrams pass both ways with the QFI.
func (w *World) carries(ue *UE, server *Server, qfi int) error {
	if err := w.upTo(ue, server, qfi); err != nil {
		return fmt.Errorf("QFI %d uplink: %w", qfi, err)
	}
	if err := w.downFrom(server, ue, qfi); err != nil {
		return fmt.Errorf("QFI %d downlink: %w", qfi, err)
	}
	return nil
}

// forwarded sends a downlink packet of the server from the source into the indirect tunnel, which must
// arrive at the target.
func (w *World) forwarded(from, to *Node, indirect, out tunnel, ue UE, qfi int) error {
	inner := udpPacket(dnAddr, ue.v4, serverPort, uePort, []byte(w.text("forwarded")))
	if err := from.downlink(indirect, qfi, inner); err != nil {
		return err
	}
	if err := comesOutWith(to, out, qfi, inner); err != nil {
		return fmt.Errorf("indirect forwarding of QFI %d: %w", qfi, err)
	}
	return nil
}

// comesOutWith checks that an inner packet is the next message in a tunnel, with the QFI.
func comesOutWith(to *Node, out tunnel, qfi int, inner []byte) error {
	sent, err := readPacket(inner)
	if err != nil {
		return err
	}
	got, err := to.expect(out.teid, qfi)
	if err != nil {
		return err
	}
	if string(got.payload) != string(sent.payload) || !got.src.Equal(sent.src) || !got.dst.Equal(sent.dst) {
		return fmt.Errorf("%q of %v to %v, not %q", got.payload, got.src, got.dst, sent.payload)
	}
	return nil
}
