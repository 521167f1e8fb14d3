package main

import (
	"bytes"
	"fmt"
	"net"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
)

// flowRules are the rules of a dedicated flow; the SDF Filters are those of downlink and uplink.
type flowRules struct {
	pdr      uint16
	far      uint32
	rule     uint32
	qfi      byte
	downlink [][]byte
	uplink   [][]byte
}

// dedicated is a flow between the flow server and the UE's port, with the same filter in both directions.
func dedicated() flowRules {
	filter := [][]byte{sdfText("permit out udp from 10.0.6.1/32 5050 to assigned 1-65535")}
	return flowRules{5, 4, 2, 2, filter, filter}
}

// create has the IEs that add the flow.
func (f flowRules) create() []byte {
	return concat(
		createPDR(pdrID(f.pdr), prec(1), pdi(source(core), ni(), concat(f.downlink...), interfaceType(typeN6)),
			farID(f.far), urrID(f.rule), qerID(f.rule)),
		createPDR(pdrID(f.pdr+1), prec(1), pdi(source(access), choose5(), ni(), concat(f.uplink...),
			qfiIE(f.qfi), interfaceType(typeN3)), removeAnyGTPU(), farID(f.far+1), qerID(f.rule)),
		createFAR(farID(f.far), action(buffNocp2), barID(1)),
		createFAR(farID(f.far+1), action(forw2), fp(dest(core), ni(), interfaceType(typeN6))),
		createURR(urrID(f.rule), tlv(ieMeasurementMethod, hx("02")),
			tlv(ieReportingTriggers, hx("020000")), tlv(ieVolumeThreshold, hx("010000000006400000"))),
		createQER(qerID(f.rule), tlv(ieGateStatus, hx("00")), rates(ieMBR, 100_000), rates(ieGBR, 50_000), qfiIE(f.qfi)),
	)
}

func (f flowRules) remove() []byte {
	return concat(removePDR(pdrID(f.pdr)), removePDR(pdrID(f.pdr+1)), removeFAR(farID(f.far)),
		removeFAR(farID(f.far+1)), removeURR(urrID(f.rule)), removeQER(qerID(f.rule)))
}

// sameFTEID checks that the PDRs are created with the session's F-TEID.
func (s *open5gsSession) sameFTEID(answer *parsed, pdrs ...uint16) error {
	created, _, err := createdPDRs(answer)
	if err != nil {
		return err
	}
	for _, id := range pdrs {
		if created[id] == nil {
			return fmt.Errorf("no Created PDR %d", id)
		}
		if got := created[id].TEID; got != s.UE.up.teid {
			return fmt.Errorf("PDR %d has TEID %#x, not the session's %#x", id, got, s.UE.up.teid)
		}
	}
	return nil
}

// addFlow adds a flow and sets the gNB's tunnel in its downlink FAR.
func (s *open5gsSession) addFlow(f flowRules) error {
	answer, err := s.modify(f.create())
	if err != nil {
		return err
	}
	if err := s.sameFTEID(answer, f.pdr+1); err != nil {
		return err
	}
	_, err = s.modify(s.forward(f.far, s.node, s.down))
	return err
}

// lost checks that no uplink datagram passes: none matches a PDR. N4 and N3 are two ways to the UPF,
// so a modification sent before the datagram is settled could reach the UPF first.
func (s *open5gsSession) lost(server *Server, qfi int) error {
	if err := s.sendUp(&s.UE, server, qfi, s.text("matches no PDR")); err != nil {
		return err
	}
	return s.settled()
}

func open5gsCases(w *World) ([]testCase, error) {
	o, err := newOpen5GS(w)
	if err != nil {
		return nil, err
	}
	cases := []testCase{
		{"association; heartbeats of either side", o.begin},
		{"IPv4 session: datagrams and pings both ways", o.with(4, func(s *open5gsSession) error { return w.bothWays(&s.UE) })},
		{"IPv6 session: Router Solicitation and Advertisement, datagrams and pings both ways", o.with(6, addressed)},
		{"IPv4v6 session: Router Solicitation and Advertisement, datagrams and pings both ways", o.with(46, addressed)},
		{"packets before the first modification: report, delivery in order", o.early},
		{"flow added, changed and removed", o.with(4, oneFlow)},
		{"two flows in one request, filters of all kinds", o.with(46, twoFlows)},
		{"flow and tunnel in requests under way together, in both orders", o.eitherOrder},
		{"packet that a FAR buffered leaves by that FAR", o.ownFAR},
		{"idle: report, paging, buffered packets delivered", o.with(4, idle)},
		{"Error Indication of the gNB: report, buffering, reactivation", o.with(4, indicated)},
		{"Xn handover of two flows: an End Marker for each FAR", o.with(4, xn)},
		{"N2 handover with indirect forwarding, a failed one, and a second one", o.with(4, n2)},
		{"two data networks at once", o.twoNetworks},
		{"released session: Error Indication for its F-TEID", o.released},
	}
	cases = append(cases, o.epcCases()...)
	return append(cases, testCase{"restart of the UPF: sessions anew with RESTI and their F-TEIDs", o.restarted},
		testCase{"end of the last session", o.end}), nil
}

func (o *open5gs) begin() error {
	if err := o.associate(); err != nil {
		return err
	}
	started, err := o.smf.heartbeat(o.smf.started)
	if err != nil {
		return err
	}
	if !started.Equal(o.upStarted) {
		return fmt.Errorf("Recovery Time Stamp %v in the heartbeat, %v in the association", started, o.upStarted)
	}
	if _, err := take(o.smf.heartbeats, "Heartbeat Request"); err != nil {
		return err
	}
	s, err := o.open(4)
	if err != nil {
		return err
	}
	o.fence = &s.UE
	o.fenceSession = s
	return nil
}

// addressed acts as a UE with an IPv6 address: SLAAC, then traffic.
func addressed(s *open5gsSession) error {
	own := net.ParseIP("fe80::a:b:c:d")
	solicitation := icmpPacket(own, net.ParseIP("ff02::2"), 255, 133, make([]byte, 4))
	if err := s.node.uplink(s.UE.up, s.qfi, solicitation); err != nil {
		return err
	}
	got, err := s.userPlane.next()
	if err != nil {
		return fmt.Errorf("Router Solicitation: %w", err)
	}
	if got.kind != gtpuPDU || got.teid != s.solicited.teid || !bytes.Equal(got.body, solicitation) {
		return fmt.Errorf("not the Router Solicitation of TEID %#x: %v", s.solicited.teid, got)
	}
	// Cur Hop Limit 64, no flags, Router Lifetime, and the prefix of the UE. Spec: RFC 4861 §4.2, §4.6.2.
	rest := concat(hx("4000ffff"), u32(0), u32(0), hx("030440c0"), u32(0xffffffff), u32(0xffffffff), u32(0),
		s.v6.Mask(net.CIDRMask(64, 128)))
	advertisement := icmpPacket(net.ParseIP(routerAddr), own, 255, 134, rest)
	if err := s.userPlane.downlink(s.router, noQFI, advertisement); err != nil {
		return err
	}
	if got, err = s.node.next(); err != nil {
		return fmt.Errorf("Router Advertisement: %w", err)
	}
	if got.teid != s.down.teid || got.qfi != s.qfi || !bytes.Equal(got.body, advertisement) {
		return fmt.Errorf("not the Router Advertisement of TEID %#x: %v", s.down.teid, got)
	}
	return s.bothWays(&s.UE)
}

func (o *open5gs) early() error {
	s := o.newSession(4)
	if err := s.establish(); err != nil {
		return err
	}
	texts := []string{o.text("early"), o.text("early"), o.text("early")}
	for _, text := range texts {
		if err := o.server.send(s.v4, uePort, text); err != nil {
			return err
		}
	}
	report, err := s.downlinkReport(1)
	if err != nil {
		return err
	}
	s.acknowledge(report)
	if err := o.settled(); err != nil {
		return err
	}
	if _, err := s.modify(s.forward(1, s.node, s.down)); err != nil {
		return err
	}
	for _, text := range texts {
		if err := s.receives(o.server, s.down.teid, 1, text); err != nil {
			return err
		}
	}
	if err := o.bothWays(&s.UE); err != nil {
		return err
	}
	return s.release()
}

func oneFlow(s *open5gsSession) error {
	f := dedicated()
	if err := s.addFlow(f); err != nil {
		return err
	}
	if err := s.carries(s.flow, 2); err != nil {
		return err
	}
	if err := s.carries(s.server, 1); err != nil {
		return err
	}
	if err := s.lost(s.server, 2); err != nil {
		return err
	}
	// The same flow, now with the other server: partial updates of both PDIs.
	other := sdfText("permit out udp from 10.0.6.1/32 5001 to assigned 1-65535")
	_, err := s.modify(
		updatePDR(pdrID(5), pdi(source(core), other, interfaceType(typeN6))),
		updatePDR(pdrID(6), pdi(source(access), other, interfaceType(typeN3))),
		updateQER(qerID(2), rates(ieMBR, 200_000), rates(ieGBR, 60_000)))
	if err != nil {
		return fmt.Errorf("changed flow: %w", err)
	}
	if err := s.carries(s.server, 2); err != nil {
		return fmt.Errorf("changed flow: %w", err)
	}
	if err := s.carries(s.flow, 1); err != nil {
		return fmt.Errorf("changed flow: %w", err)
	}
	// A change without a filter.
	if _, err := s.modify(updatePDR(pdrID(6), pdi(source(access), interfaceType(typeN3)))); err != nil {
		return fmt.Errorf("PDI without SDF Filter: %w", err)
	}
	if err := s.carries(s.server, 2); err != nil {
		return fmt.Errorf("PDI without SDF Filter: %w", err)
	}
	if _, err := s.modify(f.remove()); err != nil {
		return fmt.Errorf("removed flow: %w", err)
	}
	if err := s.lost(s.server, 2); err != nil {
		return err
	}
	if err := s.carries(s.flow, 1); err != nil {
		return fmt.Errorf("removed flow: %w", err)
	}
	return s.bothWays(&s.UE)
}

// carries calls the world's function of this name for this session.
func (s *open5gsSession) carries(server *Server, qfi int) error {
	return s.World.carries(&s.UE, server, qfi)
}

func twoFlows(s *open5gsSession) error {
	pings := [][]byte{
		sdfText("permit out icmp from any to assigned"),
		sdfText("permit out udp from 10.0.6.99/32 1-65535 to assigned 50021"),
	}
	first := flowRules{5, 4, 2, 2, pings, pings}
	second := flowRules{7, 6, 3, 3,
		[][]byte{
			sdfDefined(fmt.Sprintf("permit out 17 from 10.0.6.1 5050 to %v", s.v4), 1),
			sdfText(fmt.Sprintf("permit out ip from any to %v/120", s.v6.Mask(net.CIDRMask(64, 128)))),
		},
		[][]byte{
			sdfNamed(1),
			sdfText(fmt.Sprintf("permit out ip from any to %v/120", s.v6.Mask(net.CIDRMask(64, 128)))),
		},
	}
	answer, err := s.modify(first.create(), second.create())
	if err != nil {
		return err
	}
	if err := s.sameFTEID(answer, 6, 8); err != nil {
		return err
	}
	for _, far := range []uint32{4, 6} {
		if _, err := s.modify(s.forward(far, s.node, s.down)); err != nil {
			return err
		}
	}
	for _, one := range []struct {
		server *Server
		qfi    int
	}{{s.server, 1}, {s.flow, 3}, {s.serverV6, 3}} {
		if err := s.carries(one.server, one.qfi); err != nil {
			return err
		}
	}
	pinging := s.UE
	pinging.qfi = 2
	if err := s.pingFrom(&pinging, dnAddr); err != nil {
		return err
	}
	_, err = s.modify(first.remove(), second.remove())
	return err
}

func (o *open5gs) eitherOrder() error {
	for _, flowFirst := range []bool{true, false} {
		s := o.newSession(4)
		if err := s.establish(); err != nil {
			return err
		}
		f := dedicated()
		var requests []*pending
		if flowFirst {
			requests = append(requests, s.smf.send(session, msgModification, s.up, f.create()))
		}
		requests = append(requests, s.smf.send(session, msgModification, s.up, s.forward(1, s.node, s.down)))
		if !flowFirst {
			requests = append(requests, s.smf.send(session, msgModification, s.up, f.create()))
		}
		for _, request := range requests {
			if _, err := request.accepted(); err != nil {
				return err
			}
		}
		if _, err := s.modify(s.forward(4, s.node, s.down)); err != nil {
			return err
		}
		if err := s.carries(o.flow, 2); err != nil {
			return err
		}
		if err := s.carries(o.server, 1); err != nil {
			return err
		}
		if err := s.release(); err != nil {
			return err
		}
	}
	return nil
}

func (o *open5gs) ownFAR() error {
	s := o.newSession(4)
	if err := s.establish(); err != nil {
		return err
	}
	first, second := o.text("of FAR 1"), o.text("of FAR 4")
	if err := o.flow.send(s.v4, uePort, first); err != nil {
		return err
	}
	report, err := s.downlinkReport(1)
	if err != nil {
		return err
	}
	s.acknowledge(report)
	if _, err := s.modify(dedicated().create()); err != nil {
		return err
	}
	if _, err := s.modify(s.forward(1, s.node, s.down)); err != nil {
		return err
	}
	if err := s.receives(o.flow, s.down.teid, 1, first); err != nil {
		return err
	}
	if err := o.flow.send(s.v4, uePort, second); err != nil {
		return err
	}
	if report, err = s.downlinkReport(5); err != nil {
		return err
	}
	s.acknowledge(report)
	if _, err := s.modify(s.forward(4, s.node, s.down)); err != nil {
		return err
	}
	if err := s.receives(o.flow, s.down.teid, 2, second); err != nil {
		return err
	}
	return s.release()
}

func idle(s *open5gsSession) error {
	if err := s.addFlow(dedicated()); err != nil {
		return err
	}
	for range 2 {
		if _, err := s.modify(idleFARs(1, 4)); err != nil {
			return err
		}
		texts := []string{s.text("idle"), s.text("idle"), s.text("idle")}
		servers := []*Server{s.server, s.flow, s.server}
		for number, text := range texts {
			if err := servers[number].send(s.v4, uePort, text); err != nil {
				return err
			}
		}
		for range 2 {
			report, err := s.downlinkReport(1, 5)
			if err != nil {
				return err
			}
			s.acknowledge(report)
		}
		if err := s.settled(); err != nil {
			return fmt.Errorf("before the reactivation: %w", err)
		}
		if _, err := s.modify(s.forward(1, s.node, s.down), s.forward(4, s.node, s.down)); err != nil {
			return err
		}
		for number, text := range texts {
			if err := s.receives(servers[number], s.down.teid, 1+number%2, text); err != nil {
				return err
			}
		}
	}
	return s.carries(s.flow, 2)
}

// wantIndicated waits for an Error Indication Report about a tunnel.
func wantIndicated(report *parsed, t tunnel) error {
	indicated := report.find(ie.ErrorIndicationReport)
	if indicated == nil {
		return fmt.Errorf("no Error Indication Report: %x", report.octets)
	}
	fteid, err := indicated.FTEID()
	if err != nil {
		return err
	}
	if fteid.TEID != t.teid || !fteid.IPv4Address.Equal(t.addr) {
		return fmt.Errorf("Error Indication of %+v, not of %+v", fteid, t)
	}
	return nil
}

func indicated(s *open5gsSession) error {
	if err := s.node.errorIndication(upfN3, s.down.teid); err != nil {
		return err
	}
	report, err := s.smf.report(4, s.cp)
	if err != nil {
		return err
	}
	if err := wantIndicated(report, s.down); err != nil {
		return err
	}
	s.acknowledge(report)
	if _, err := s.modify(idleFARs(1)); err != nil {
		return err
	}
	text := s.text("after the Error Indication")
	if err := s.server.send(s.v4, uePort, text); err != nil {
		return err
	}
	if report, err = s.downlinkReport(1); err != nil {
		return err
	}
	s.acknowledge(report)
	s.down = s.node.tunnel()
	if _, err := s.modify(s.forward(1, s.node, s.down)); err != nil {
		return err
	}
	if err := s.receives(s.server, s.down.teid, 1, text); err != nil {
		return err
	}
	return s.bothWays(&s.UE)
}

// switchTo switches the path of FARs in one request, with an End Marker for each.
func (s *open5gsSession) switchTo(node *Node, fars ...uint32) error {
	old, oldNode := s.down, s.node
	s.node, s.down = node, node.tunnel()
	var ies []byte
	for _, far := range fars {
		ies = append(ies, s.forward(far, s.node, s.down, 2)...)
	}
	if _, err := s.modify(ies); err != nil {
		return err
	}
	return oldNode.endMarkers(old.teid, len(fars))
}

func xn(s *open5gsSession) error {
	if err := s.addFlow(dedicated()); err != nil {
		return err
	}
	for _, node := range []*Node{s.target, s.gnb} {
		if err := s.carries(s.flow, 2); err != nil {
			return err
		}
		if err := s.switchTo(node, 1, 4); err != nil {
			return err
		}
		if err := s.carries(s.flow, 2); err != nil {
			return err
		}
	}
	return s.bothWays(&s.UE)
}

// forwarding creates indirect tunnels for QFI 1 and 2: PDRs and FARs with these first IDs. It returns
// the tunnel of the UPF.
func (s *open5gsSession) forwarding(pdr uint16, far uint32, to tunnel) (tunnel, error) {
	var ies []byte
	for n := range uint16(2) {
		number := far + uint32(n)
		ies = append(ies, concat(
			createPDR(pdrID(pdr+n), prec(0x1000), pdi(source(access), tlv(ieFTEID, hx("0f0a")), ni(),
				qfiIE(byte(n+1)), interfaceType(typeULForward)), removeAnyGTPU(), farID(number), qerID(uint32(n+1))),
			createFAR(farID(number), action(forw2), fp(dest(access), ni(), outerV4(to), interfaceType(typeDLForward))),
		)...)
	}
	answer, err := s.modify(ies)
	if err != nil {
		return tunnel{}, err
	}
	created, _, err := createdPDRs(answer)
	if err != nil {
		return tunnel{}, err
	}
	one, two := created[pdr], created[pdr+1]
	if one == nil || two == nil || one.TEID != two.TEID {
		return tunnel{}, fmt.Errorf("CHOOSE ID 10: %+v, %+v", one, two)
	}
	if one.TEID == s.UE.up.teid {
		return tunnel{}, fmt.Errorf("CHOOSE ID 10 has the F-TEID of CHOOSE ID 5")
	}
	return tunnel{one.TEID, one.IPv4Address}, nil
}

func (s *open5gsSession) stopForwarding(pdr uint16, far uint32) error {
	_, err := s.modify(removePDR(pdrID(pdr)), removePDR(pdrID(pdr+1)),
		removeFAR(farID(far)), removeFAR(farID(far+1)))
	return err
}

func n2(s *open5gsSession) error {
	if err := s.addFlow(dedicated()); err != nil {
		return err
	}
	pdr, far := uint16(7), uint32(6)
	var before tunnel
	for number, to := range []*Node{s.target, s.target, s.gnb} {
		from, out := s.node, to.tunnel()
		indirect, err := s.forwarding(pdr, far, out)
		if err != nil {
			return err
		}
		if indirect.teid == before.teid {
			return fmt.Errorf("the next handover has TEID %#x of the one before", indirect.teid)
		}
		before = indirect
		// The first handover fails: the target receives nothing.
		if number > 0 {
			if err := s.handOver(from, to, indirect, out); err != nil {
				return err
			}
		}
		if err := s.stopForwarding(pdr, far); err != nil {
			return err
		}
		if err := s.carries(s.flow, 2); err != nil {
			return err
		}
		pdr, far = pdr+2, far+2
	}
	return s.bothWays(&s.UE)
}

// handOver forwards packets while it switches the path; the source forwards the End Marker.
func (s *open5gsSession) handOver(from, to *Node, indirect, out tunnel) error {
	for _, qfi := range []int{1, 2} {
		if err := s.World.forwarded(from, to, indirect, out, s.UE, qfi); err != nil {
			return err
		}
	}
	if err := s.switchTo(to, 1, 4); err != nil {
		return err
	}
	if err := s.carries(s.server, 1); err != nil {
		return err
	}
	// Packets still at the source, then its End Marker.
	if err := s.World.forwarded(from, to, indirect, out, s.UE, 1); err != nil {
		return err
	}
	if err := from.send(indirect.addr, gtpuMessage(gtpuEndMarker, indirect.teid, 0, noQFI, nil)); err != nil {
		return err
	}
	if err := to.endMarkers(out.teid, 1); err != nil {
		return fmt.Errorf("End Marker of the source: %w", err)
	}
	return nil
}

// wantDead checks that the UPF answers packets for a tunnel with an Error Indication.
func (w *World) wantDead(ue *UE) error {
	if err := w.sendUp(ue, w.server, ue.qfi, "into no tunnel"); err != nil {
		return err
	}
	got, err := ue.node.next()
	if err != nil {
		return err
	}
	if want := append([]byte{16}, u32(ue.up.teid)...); got.kind != gtpuErrorIndication || !bytes.HasPrefix(got.body, want) {
		return fmt.Errorf("not an Error Indication of TEID %#x: %v", ue.up.teid, got)
	}
	return nil
}

// twoNetworks opens a session of each data network.
func (o *open5gs) twoNetworks() error {
	first := o.newSession(4)
	second := o.newSession(46)
	second.dnn, second.v4, second.v6 = imsDNN, net.IPv4(10, 47, 0, 2), net.ParseIP("2001:db8:face:2::1")
	for _, s := range []*open5gsSession{first, second} {
		if err := s.establish(); err != nil {
			return fmt.Errorf("%s: %w", s.dnn, err)
		}
		if _, err := s.modify(s.forward(1, s.node, s.down)); err != nil {
			return fmt.Errorf("%s: %w", s.dnn, err)
		}
	}
	for range 2 {
		if err := o.carries(&first.UE, o.server, 1); err != nil {
			return fmt.Errorf("%s: %w", first.dnn, err)
		}
		for _, s := range []*Server{o.ims, o.imsV6} {
			if err := o.carries(&second.UE, s, 1); err != nil {
				return fmt.Errorf("%s: %w", second.dnn, err)
			}
		}
	}
	if err := first.release(); err != nil {
		return err
	}
	if err := o.carries(&second.UE, o.ims, 1); err != nil {
		return fmt.Errorf("%s: %w", second.dnn, err)
	}
	return second.release()
}

func (o *open5gs) released() error {
	s, err := o.open(4)
	if err != nil {
		return err
	}
	if err := s.release(); err != nil {
		return err
	}
	return o.wantDead(&s.UE)
}

// awaitRestart exchanges heartbeats until the UPF sends a newer Recovery Time Stamp.
func (s *SMF) awaitRestart(before time.Time) error {
	started, err := s.heartbeat(s.started)
	if err == nil && !started.After(before) {
		err = fmt.Errorf("Recovery Time Stamp %v after a restart, %v before", started, before)
	}
	return err
}

// known is the F-TEID that the UPF allocated for a PDR.
func (s *open5gsSession) known(pdr uint16) []byte {
	fteid := s.fteids[pdr]
	value := concat([]byte{1}, u32(fteid.TEID), v4(fteid.IPv4Address))
	if fteid.IPv6Address != nil {
		value[0] |= 2
		value = append(value, v6(fteid.IPv6Address)...)
	}
	return tlv(ieFTEID, value)
}

// restore establishes a session again with RESTI and its former F-TEIDs.
func (s *open5gsSession) restore() error {
	answer, err := s.smf.ask(session, msgEstablishment, 0, s.nodeID(), s.smf.fSEID(s.cp),
		s.rules(s.known(2), s.known(3), s.known(4)), s.identities(true), tlv(ieSEReqFlags, hx("01")))
	if err != nil {
		return err
	}
	if s.up, err = upSEID(answer, s.cp); err != nil {
		return err
	}
	_, err = s.modify(s.forward(1, s.node, s.down))
	return err
}

func (o *open5gs) restarted() error {
	s, err := o.open(46)
	if err != nil {
		return err
	}
	o.smf.forget()
	if err := restartUPF(); err != nil {
		return err
	}
	if err := o.smf.awaitRestart(o.upStarted); err != nil {
		return err
	}
	if err := o.associate(); err != nil {
		return err
	}
	for _, one := range []*open5gsSession{o.fenceSession, s} {
		if err := one.restore(); err != nil {
			return err
		}
	}
	if err := addressed(s); err != nil {
		return err
	}
	return s.release()
}

func (o *open5gs) end() error {
	o.fence = nil
	return o.fenceSession.release()
}
