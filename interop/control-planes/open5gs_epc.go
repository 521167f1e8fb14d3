package main

import (
	"fmt"
)

// epcCases are the cases of the SMF as PGW-C (Sxb) and of the SGW-C (Sxa).
func (o *open5gs) epcCases() []testCase {
	return []testCase{
		{"EPC, PGW-C: attach with IPv4v6, dedicated bearer with a tunnel of its own", o.pgw},
		{"EPC, SGW-C: attach, dedicated bearer, idle and paging, X2 handover, indirect forwarding", o.sgw},
	}
}

// establishPDN establishes a session of the PGW-C.
func (s *open5gsSession) establishPDN() error {
	qer := createQER(qerID(1), tlv(ieGateStatus, hx("00")), rates(ieMBR, 1_000_000))
	rules := concat(
		createPDR(pdrID(1), prec(0xffff), pdi(source(core), ni(), s.ueIP(4), interfaceType(typeN6)), farID(1), qerID(1)),
		createPDR(pdrID(2), prec(0xffff), pdi(source(access), choose5(), ni(), s.ueIP(0), interfaceType(typeN3)),
			removeAnyGTPU(), farID(2), qerID(1)),
		s.toRouter(choose(), choose5()),
		createFAR(farID(1), action(forw2), fp(dest(access), ni(), outerV4(s.down), interfaceType(typeN3))),
		s.fars(), qer, tlv(ieCreateBAR, barID(1)),
	)
	answer, err := s.smf.ask(session, msgEstablishment, 0, s.nodeID(), s.smf.fSEID(s.cp), rules, s.identities(false))
	if err != nil {
		return err
	}
	return s.take(answer)
}

func (o *open5gs) pgw() error {
	s := o.newSession(46)
	s.node, s.down, s.qfi = o.another, o.another.tunnel(), noQFI
	if err := s.establishPDN(); err != nil {
		return err
	}
	if err := addressed(s); err != nil {
		return err
	}
	if err := s.dedicatedBearer(); err != nil {
		return fmt.Errorf("dedicated bearer: %w", err)
	}
	if err := o.bothWays(&s.UE); err != nil {
		return err
	}
	_, err := s.smf.ask(session, msgDeletion, s.up)
	return err
}

// dedicatedBearer adds a bearer with its own tunnels, uses it, and removes it.
func (s *open5gsSession) dedicatedBearer() error {
	filter := sdfText("permit out udp from 10.0.6.1/32 5050 to assigned 1-65535")
	answer, err := s.modify(
		createPDR(pdrID(5), prec(5), pdi(source(core), ni(), filter, interfaceType(typeN6)), farID(4), qerID(2)),
		createPDR(pdrID(6), prec(6), pdi(source(access), choose(), ni(), filter, interfaceType(typeN3)),
			removeAnyGTPU(), farID(5), qerID(2)),
		createFAR(farID(4), action(buffNocp2), barID(1)),
		createFAR(farID(5), action(forw2), fp(dest(core), ni(), interfaceType(typeN6))),
		createQER(qerID(2), tlv(ieGateStatus, hx("00")), rates(ieMBR, 100_000), rates(ieGBR, 50_000)))
	if err != nil {
		return err
	}
	created, _, err := createdPDRs(answer)
	if err != nil {
		return err
	}
	fteid := created[6]
	if fteid == nil || fteid.TEID == s.UE.up.teid {
		return fmt.Errorf("F-TEID of PDR 6: %+v", fteid)
	}
	bearer := s.UE
	bearer.down, bearer.up = s.node.tunnel(), tunnel{fteid.TEID, fteid.IPv4Address}
	if _, err := s.modify(updateFAR(farID(4), action(forw2),
		ufp(dest(access), ni(), outerV4(bearer.down), interfaceType(typeN3)))); err != nil {
		return err
	}
	if err := s.upTo(&bearer, s.flow, noQFI); err != nil {
		return err
	}
	if err := s.downFrom(s.flow, &bearer, noQFI); err != nil {
		return err
	}
	if _, err := s.modify(idleFARs(4)); err != nil {
		return err
	}
	if _, err := s.modify(removePDR(pdrID(5)), removePDR(pdrID(6)), removeFAR(farID(4)),
		removeFAR(farID(5)), removeQER(qerID(2))); err != nil {
		return err
	}
	return s.downFrom(s.flow, &s.UE, noQFI)
}

// bearer is one EPS bearer at the SGW-U: its tunnels, and the PDRs and FARs of its directions.
type bearer struct {
	// fromPGW and fromENB are tunnels of the UPF, toPGW and toENB the others' tunnels.
	fromPGW, fromENB, toPGW, toENB tunnel
	down, up                       uint16
}

// sgwSession is a session of the SGW-C.
type sgwSession struct {
	*open5gs
	smf     *SMF
	up      uint64
	enb     *Node
	bearers [2]bearer
}

// sxaPDR is a PDI of the SGW-C with only an F-TEID.
func sxaPDI(from, interfaceKind byte) []byte {
	return pdi(source(from), choose(), ni(), interfaceType(interfaceKind))
}

func (o *open5gs) sgw() error {
	smf, err := newSMF(sgwcAddr)
	if err != nil {
		return err
	}
	defer smf.close()
	if _, err := smf.associate(nodeV4(sgwcAddr), hx("00")); err != nil {
		return err
	}
	s := &sgwSession{open5gs: o, smf: smf, enb: o.gnb}
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"attach", s.attach}, {"dedicated bearer", s.addBearer}, {"idle", s.idle}, {"handover", s.handover},
		{"traffic after all", func() error { return s.carry(0, 1) }},
	} {
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	_, err = smf.ask(session, msgDeletion, s.up)
	return err
}

func (s *sgwSession) attach() error {
	answer, err := s.smf.ask(session, msgEstablishment, 0, nodeV4(sgwcAddr), s.smf.fSEID(1),
		createPDR(pdrID(1), sxaPDI(core, typeS5U), farID(1)),
		createPDR(pdrID(2), sxaPDI(access, typeS1U), farID(2)),
		createFAR(farID(1), action(buffNocp2), barID(1)),
		createFAR(farID(2), action(buffNocp2), barID(1)),
		tlv(ieCreateBAR, barID(1)))
	if err != nil {
		return err
	}
	if s.up, err = upSEID(answer, 1); err != nil {
		return err
	}
	created, _, err := createdPDRs(answer)
	if err != nil {
		return err
	}
	one, two := created[1], created[2]
	if one == nil || two == nil || one.TEID == two.TEID {
		return fmt.Errorf("F-TEIDs %+v, %+v", one, two)
	}
	s.bearers[0] = bearer{tunnel{one.TEID, one.IPv4Address}, tunnel{two.TEID, two.IPv4Address},
		s.another.tunnel(), s.enb.tunnel(), 1, 2}
	if err := s.tunnelKnown(2, core, s.bearers[0].toPGW, typeS5U); err != nil {
		return err
	}
	if err := s.tunnelKnown(1, access, s.bearers[0].toENB, typeS1U); err != nil {
		return err
	}
	return s.carry(0)
}

// tunnelKnown makes a PDR and the FAR with the same ID forward.
func (s *sgwSession) tunnelKnown(number uint16, to byte, t tunnel, interfaceKind byte, flags ...byte) error {
	_, err := s.smf.ask(session, msgModification, s.up, known(number, to, t, interfaceKind, flags...))
	return err
}

func known(number uint16, to byte, t tunnel, interfaceKind byte, flags ...byte) []byte {
	var flag []byte
	if len(flags) > 0 {
		flag = tlv(ieSMFlags, flags)
	}
	return concat(updatePDR(pdrID(number), removeAnyGTPU()), updateFAR(farID(uint32(number)), action(forw2),
		ufp(dest(to), ni(), outerV4(t), flag, interfaceType(interfaceKind))))
}

// carry checks that packets of these bearers pass both ways.
func (s *sgwSession) carry(bearers ...int) error {
	for _, number := range bearers {
		b := s.bearers[number]
		up := udpPacket(fixedUE, dnAddr, uePort, serverPort, []byte(s.text("to the PGW")))
		if err := s.pass(s.enb, s.another, b.fromENB, b.toPGW, up); err != nil {
			return fmt.Errorf("uplink of bearer %d: %w", number, err)
		}
		if err := s.fromPGW(number, s.text("to the eNB")); err != nil {
			return fmt.Errorf("downlink of bearer %d: %w", number, err)
		}
	}
	return nil
}

func (s *sgwSession) fromPGW(number int, text string) error {
	b := s.bearers[number]
	inner := udpPacket(dnAddr, fixedUE, serverPort, uePort, []byte(text))
	return s.pass(s.another, s.enb, b.fromPGW, b.toENB, inner)
}

// pass checks that a packet into a tunnel of the UPF arrives in another node's tunnel.
func (s *sgwSession) pass(from, to *Node, in, out tunnel, inner []byte) error {
	if err := from.uplink(in, noQFI, inner); err != nil {
		return err
	}
	return comesOut(to, out, inner)
}

func comesOut(to *Node, out tunnel, inner []byte) error { return comesOutWith(to, out, noQFI, inner) }

// addBearer creates PDR and FAR 4, uplink, and then 3, downlink.
func (s *sgwSession) addBearer() error {
	b := bearer{toPGW: s.another.tunnel(), toENB: s.enb.tunnel(), down: 3, up: 4}
	add := func(number uint16, from, to, fromKind, toKind byte, out tunnel) (tunnel, error) {
		answer, err := s.smf.ask(session, msgModification, s.up,
			createPDR(pdrID(number), sxaPDI(from, fromKind), removeAnyGTPU(), farID(uint32(number))),
			createFAR(farID(uint32(number)), action(forw2), fp(dest(to), ni(), outerV4(out), interfaceType(toKind))))
		if err != nil {
			return tunnel{}, err
		}
		created, _, err := createdPDRs(answer)
		if err != nil || created[number] == nil {
			return tunnel{}, fmt.Errorf("no Created PDR %d (%v)", number, err)
		}
		return tunnel{created[number].TEID, created[number].IPv4Address}, nil
	}
	var err error
	if b.fromENB, err = add(4, access, core, typeS1U, typeS5U, b.toPGW); err != nil {
		return err
	}
	if b.fromPGW, err = add(3, core, access, typeS5U, typeS1U, b.toENB); err != nil {
		return err
	}
	s.bearers[1] = b
	return s.carry(0, 1)
}

func (s *sgwSession) idle() error {
	if _, err := s.smf.ask(session, msgModification, s.up, idleFARs(1, 3)); err != nil {
		return err
	}
	inner := udpPacket(dnAddr, fixedUE, serverPort, uePort, []byte(s.text("idle")))
	if err := s.another.uplink(s.bearers[0].fromPGW, noQFI, inner); err != nil {
		return err
	}
	report, err := s.smf.report(1, 1)
	if err != nil {
		return err
	}
	if err := wantDownlinkData(report, 1); err != nil {
		return err
	}
	s.smf.answer(report, session, s.up, tlv(ieCause, []byte{causeAccepted}))
	if _, err := s.smf.ask(session, msgModification, s.up,
		known(1, access, s.bearers[0].toENB, typeS1U), known(3, access, s.bearers[1].toENB, typeS1U)); err != nil {
		return err
	}
	return comesOut(s.enb, s.bearers[0].toENB, inner)
}

// handover is an X2 or S1 handover to the target, with indirect forwarding of the default bearer in both directions.
func (s *sgwSession) handover() error {
	target := s.target
	down, up := target.tunnel(), target.tunnel()
	indirect := func(number uint16, out tunnel) []byte {
		return concat(createPDR(pdrID(number), sxaPDI(access, typeULForward), removeAnyGTPU(), farID(uint32(number))),
			createFAR(farID(uint32(number)), action(forw2), fp(dest(access), ni(), outerV4(out), interfaceType(typeDLForward))))
	}
	answer, err := s.smf.ask(session, msgModification, s.up, indirect(5, down), indirect(6, up))
	if err != nil {
		return fmt.Errorf("indirect tunnels: %w", err)
	}
	created, _, err := createdPDRs(answer)
	if err != nil {
		return err
	}
	if created[5] == nil || created[6] == nil || created[5].TEID == created[6].TEID {
		return fmt.Errorf("indirect tunnels %+v, %+v", created[5], created[6])
	}
	for number, out := range map[uint16]tunnel{5: down, 6: up} {
		inner := udpPacket(dnAddr, fixedUE, serverPort, uePort, []byte(s.text("forwarded")))
		if number == 6 {
			inner = udpPacket(fixedUE, dnAddr, uePort, serverPort, []byte(s.text("forwarded")))
		}
		in := tunnel{created[number].TEID, created[number].IPv4Address}
		if err := s.pass(s.enb, target, in, out, inner); err != nil {
			return fmt.Errorf("indirect tunnel of PDR %d: %w", number, err)
		}
	}
	if err := s.switchPath(target); err != nil {
		return err
	}
	if _, err := s.smf.ask(session, msgModification, s.up,
		removePDR(pdrID(5)), removePDR(pdrID(6)), removeFAR(farID(5)), removeFAR(farID(6))); err != nil {
		return err
	}
	return s.carry(0, 1)
}

func (s *sgwSession) switchPath(target *Node) error {
	source := s.enb
	var old [2]tunnel
	var ies []byte
	for number := range s.bearers {
		b := &s.bearers[number]
		old[number], b.toENB = b.toENB, target.tunnel()
		ies = append(ies, known(b.down, access, b.toENB, typeS1U, 2)...)
	}
	s.enb = target
	if _, err := s.smf.ask(session, msgModification, s.up, ies); err != nil {
		return err
	}
	for _, t := range old {
		if err := source.endMarkers(t.teid, 1); err != nil {
			return err
		}
	}
	return nil
}
