package main

import (
	"fmt"
	"net"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
)

// Interfaces and 3GPP Interface Types. Spec: TS 29.244 §8.2.2, §8.2.118.
const (
	access, core, sgiLAN, cpFunction = 0, 1, 2, 3

	typeS1U, typeS5U, typeN3, typeN6 = 0x00, 0x01, 0x0b, 0x11
	typeDLForward, typeULForward     = 0x0a, 0x1c
)

// Apply Action of two octets and of one.
const (
	forw2, buffNocp2 = "0200", "0c00"
	drop1, forw1     = "01", "02"
	buffNocp1        = "0c"
)

// open5gs is the SMF of Open5GS, which is also a PGW-C.
type open5gs struct {
	*World
	// upStarted is the UPF's Recovery Time Stamp of the association.
	upStarted time.Time
	// userPlane receives Router Solicitations.
	userPlane *Node
	nextSEID  uint64
	nextUE    byte
	// fenceSession is the session of the world's fence.
	fenceSession *open5gsSession
}

// open5gsSession is a PFCP session and its UE.
type open5gsSession struct {
	*open5gs
	UE
	// dnn is the data network and the Network Instance of both sides.
	dnn    string
	cp, up uint64
	// router is the UPF's tunnel for packets of the SMF, solicited the SMF's tunnel.
	router, solicited tunnel
	// fteids are the F-TEIDs of the Created PDRs.
	fteids map[uint16]*ie.FTEIDFields
}

func newOpen5GS(w *World) (*open5gs, error) {
	smf, err := newSMF(smfAddr)
	if err != nil {
		return nil, err
	}
	userPlane, err := newNode(0, smfAddr)
	if err != nil {
		return nil, err
	}
	w.smf = smf
	if w.ims, err = newServer(imsAddr, serverPort); err != nil {
		return nil, err
	}
	if w.imsV6, err = newServer(imsV6, serverPort); err != nil {
		return nil, err
	}
	return &open5gs{World: w, userPlane: userPlane, nextUE: 1}, nil
}

func (o *open5gs) nodeID() []byte { return nodeV4(o.smf.addr) }

func (o *open5gs) associate() error {
	started, err := o.smf.associate(o.nodeID(), hx("00"))
	o.upStarted = started
	return err
}

func ni() []byte { return label(ieNetworkInstance, dnn) }

// ni is the Network Instance of the session.
func (s *open5gsSession) ni() []byte { return label(ieNetworkInstance, s.dnn) }

// choose5 is CHOOSE of both families with CHOOSE ID 5.
func choose5() []byte { return tlv(ieFTEID, hx("0f05")) }

// choose is CHOOSE of both families alone.
func choose() []byte { return tlv(ieFTEID, hx("07")) }

func removeAnyGTPU() []byte { return tlv(ieOuterHeaderRemoval, hx("06")) }

// newSession allocates the next addresses; family is 4, 6 or 46.
func (o *open5gs) newSession(family int) *open5gsSession {
	o.nextSEID++
	o.nextUE++
	s := &open5gsSession{open5gs: o, cp: o.nextSEID, dnn: dnn}
	s.node, s.qfi, s.down = o.gnb, 1, o.gnb.tunnel()
	if family != 6 {
		s.v4 = net.IPv4(10, 45, 0, o.nextUE)
	}
	if family != 4 {
		s.v6 = net.ParseIP(fmt.Sprintf("2001:db8:cafe:%d::1", o.nextUE))
	}
	s.solicited = o.userPlane.tunnel()
	return s
}

// ueIP is the UE IP Address with these further flags, and pdnType the PDN Type of the same family.
func (s *open5gsSession) ueIP(flags byte) []byte {
	var value []byte
	if s.v4 != nil {
		flags |= 2
		value = append(value, v4(s.v4)...)
	}
	if s.v6 != nil {
		flags |= 1
		value = append(value, v6(s.v6)...)
	}
	return tlv(ieUEIPAddress, []byte{flags}, value)
}

func (s *open5gsSession) pdnType() []byte {
	switch {
	case s.v6 == nil:
		return tlv(iePDNType, hx("01"))
	case s.v4 == nil:
		return tlv(iePDNType, hx("02"))
	default:
		return tlv(iePDNType, hx("03"))
	}
}

// toRouter are the PDRs 3 and 4 and FAR 3: Router Advertisements and Solicitations.
func (s *open5gsSession) toRouter(fteid3, fteid4 []byte) []byte {
	return concat(
		createPDR(pdrID(3), prec(0xff), pdi(source(cpFunction), fteid3), removeAnyGTPU(), farID(1)),
		createPDR(pdrID(4), prec(0xff), pdi(source(access), fteid4, s.ni(),
			sdfText("permit out 58 from ff02::2/128 to assigned"), interfaceType(typeN3)),
			removeAnyGTPU(), farID(3)),
	)
}

// fars are FAR 2 and 3 of every session.
func (s *open5gsSession) fars() []byte {
	return concat(
		createFAR(farID(2), action(forw2), fp(dest(core), s.ni(), interfaceType(typeN6))),
		createFAR(farID(3), action(forw2), fp(dest(cpFunction), outerV4(s.solicited))),
	)
}

// rules are the rules of an establishment, with the F-TEIDs of PDR 2, 3 and 4.
func (s *open5gsSession) rules(fteid2, fteid3, fteid4 []byte) []byte {
	urr := createURR(urrID(1), tlv(ieMeasurementMethod, hx("02")),
		tlv(ieReportingTriggers, hx("020000")), tlv(ieVolumeThreshold, hx("010000000006400000")))
	qer := createQER(qerID(1), tlv(ieGateStatus, hx("00")), rates(ieMBR, 1_000_000), qfiIE(1))
	return concat(
		createPDR(pdrID(1), prec(0xffff), pdi(source(core), s.ni(), s.ueIP(4), interfaceType(typeN6)),
			farID(1), urrID(1), qerID(1)),
		createPDR(pdrID(2), prec(0xffff), pdi(source(access), fteid2, s.ni(), qfiIE(1), interfaceType(typeN3)),
			removeAnyGTPU(), farID(2), qerID(1)),
		s.toRouter(fteid3, fteid4),
		createFAR(farID(1), action(buffNocp2), barID(1)),
		s.fars(), urr, qer, tlv(ieCreateBAR, barID(1)),
	)
}

// identities are the IEs after the rules, which a UPF does not need.
func (s *open5gsSession) identities(slice bool) []byte {
	ies := concat(s.pdnType(),
		tlv(ieUserID, hx("07"), []byte{8}, hx("00101000000000f1"), []byte{8}, hx("5386240000000010"), []byte{6}, hx("691000000000")),
		label(ieAPNDNN, s.dnn))
	if slice {
		ies = append(ies, tlv(ieSNSSAI, hx("01ffffff"))...)
	}
	return ies
}

// establish establishes the session.
func (s *open5gsSession) establish() error {
	answer, err := s.smf.ask(session, msgEstablishment, 0, s.nodeID(), s.smf.fSEID(s.cp),
		s.rules(choose5(), choose(), choose5()), s.identities(true))
	if err != nil {
		return err
	}
	if err := s.take(answer); err != nil {
		return err
	}
	two, four := s.fteids[2], s.fteids[4]
	if two.TEID != four.TEID || !two.IPv4Address.Equal(four.IPv4Address) {
		return fmt.Errorf("PDR 2 and 4 have different F-TEIDs: %+v, %+v", two, four)
	}
	if two.TEID == s.fteids[3].TEID {
		return fmt.Errorf("PDR 3 has the F-TEID of PDR 2")
	}
	return nil
}

// take reads the Created PDRs 2, 3 and 4 in the answer to an establishment.
func (s *open5gsSession) take(answer *parsed) error {
	var err error
	if s.up, err = upSEID(answer, s.cp); err != nil {
		return err
	}
	if s.fteids, _, err = createdPDRs(answer); err != nil {
		return err
	}
	for _, id := range []uint16{2, 3, 4} {
		if s.fteids[id] == nil {
			return fmt.Errorf("no Created PDR %d", id)
		}
	}
	s.UE.up = tunnel{s.fteids[2].TEID, s.fteids[2].IPv4Address}
	s.router = tunnel{s.fteids[3].TEID, s.fteids[3].IPv4Address}
	return nil
}

// modify sends a modification, which must be accepted.
func (s *open5gsSession) modify(ies ...[]byte) (*parsed, error) {
	return s.smf.ask(session, msgModification, s.up, ies...)
}

// outerBoth is an Outer Header Creation with the IPv4 and IPv6 addresses of a gNB.
func outerBoth(t tunnel, ipv6 net.IP) []byte {
	return tlv(ieOuterHeaderCreation, hx("0300"), u32(t.teid), v4(t.addr), v6(ipv6))
}

// forward is an Update FAR with a gNB's tunnel, and flags if any.
func (s *open5gsSession) forward(far uint32, node *Node, t tunnel, flags ...byte) []byte {
	outer := outerV4(t)
	if node.v6 != nil {
		outer = outerBoth(t, node.v6)
	}
	var flag []byte
	if len(flags) > 0 {
		flag = tlv(ieSMFlags, flags)
	}
	return updateFAR(farID(far), action(forw2), ufp(dest(access), s.ni(), outer, flag, interfaceType(typeN3)))
}

// idleFARs are Update FARs of an idle UE, with only Apply Action and BAR.
func idleFARs(fars ...uint32) []byte {
	var all []byte
	for _, far := range fars {
		all = append(all, updateFAR(farID(far), action(buffNocp2), barID(1))...)
	}
	return all
}

// open establishes a session and sets the gNB's tunnel.
func (o *open5gs) open(family int) (*open5gsSession, error) {
	s := o.newSession(family)
	if err := s.establish(); err != nil {
		return nil, err
	}
	_, err := s.modify(s.forward(1, s.node, s.down))
	return s, err
}

// release deletes the session and checks that URR 1 is reported.
func (s *open5gsSession) release() error {
	answer, err := s.smf.ask(session, msgDeletion, s.up)
	if err != nil {
		return err
	}
	_, count, err := volumes(answer.all(ie.UsageReportWithinSessionDeletionResponse), 1)
	if err == nil && count != 1 {
		err = fmt.Errorf("%d Usage Reports of URR 1", count)
	}
	return err
}

// with runs a case with a session and releases it.
func (o *open5gs) with(family int, run func(*open5gsSession) error) func() error {
	return func() error {
		s, err := o.open(family)
		if err != nil {
			return err
		}
		if err := run(s); err != nil {
			return err
		}
		return s.release()
	}
}

// downlinkReport waits for a Downlink Data Report of one of the PDRs. The QFI, if present, must be one
// that the SMF assigned, and a Paging Policy Indication must be 0.
func (s *open5gsSession) downlinkReport(pdrs ...uint16) (*parsed, error) {
	report, err := s.smf.report(1, s.cp)
	if err != nil {
		return nil, err
	}
	return report, wantDownlinkData(report, pdrs...)
}

func wantDownlinkData(report *parsed, pdrs ...uint16) error {
	data := report.find(ie.DownlinkDataReport)
	if data == nil {
		return fmt.Errorf("no Downlink Data Report: %x", report.octets)
	}
	id, err := data.PDRID()
	if err != nil {
		return err
	}
	known := false
	for _, one := range pdrs {
		known = known || one == id
	}
	if !known {
		return fmt.Errorf("downlink data of PDR %d, not of %v", id, pdrs)
	}
	information := find(data.ChildIEs, ie.DownlinkDataServiceInformation)
	if information == nil {
		return nil
	}
	if information.HasPPI() {
		if ppi, err := information.PPI(); err != nil || ppi != 0 {
			return fmt.Errorf("Paging Policy Indication %d (%v)", ppi, err)
		}
	}
	if information.HasQFI() {
		if qfi := information.Payload[len(information.Payload)-1]; qfi == 0 || qfi > 3 {
			return fmt.Errorf("QFI %d, which nobody gave", qfi)
		}
	}
	return nil
}

// acknowledge answers a report as Open5GS does.
func (s *open5gsSession) acknowledge(report *parsed) {
	s.smf.answer(report, session, s.up, tlv(ieCause, []byte{causeAccepted}))
}

func concat(parts ...[]byte) []byte {
	var all []byte
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}
