package main

import (
	"bytes"
	"fmt"
	"net"

	"github.com/wmnsk/go-pfcp/ie"
)

// typeN9 is the 3GPP Interface Type N9.
const typeN9 = 0x0f

// ulcl is the SMF of free5GC with two UPFs: a branching point with N3, N9 and a data network of its own, and
// behind N9 the session anchor.
type ulcl struct {
	*free5gc
	// anchor is the SMF towards the anchor; towards the branching point it is that of the world.
	anchor *SMF
	// local is a server behind the branching point; the world's is behind the anchor.
	local     *Server
	nextN9    uint32
	fencePair *ulclSession
}

// ulclSession is a PDU session at both UPFs. Its paths are those of the branching point: through N9, and the
// local branch.
type ulclSession struct {
	*free5gcSession
	pair       *ulcl
	anchorSEID uint64
	atAnchor   dataPath
	// toAnchor is the anchor's tunnel, fromAnchor the branching point's.
	toAnchor, fromAnchor tunnel
}

func ulclCases(w *World) ([]testCase, error) {
	smfs, err := newSMFs(smfAddr, upfN4, anchorN4)
	if err != nil {
		return nil, err
	}
	w.smf = smfs[0]
	u := &ulcl{free5gc: &free5gc{World: w}, anchor: smfs[1], local: w.flow, nextN9: 0x90000}
	if w.server, err = newServer(imsAddr, serverPort); err != nil {
		return nil, err
	}
	return []testCase{
		{"association of both UPFs", u.begin},
		{"anchor through N9 and local branch: traffic both ways; release at both", u.basic},
		{"idle: packets of the anchor and of the local branch buffered, reported, delivered", u.with(u.idle)},
		{"Xn handover: End Markers of both paths at the branching point", u.with(u.xn)},
		{"path switch at the anchor: its End Marker passes the branching point", u.with(u.relocated)},
		{"session gone at one UPF: the other one reports the Error Indication of N9", u.indicated},
		{"Access rules on N9 beside N3: F-TEID by interface type, tunnel by subnet", u.beside},
		{"tunnel without a route: refused by both UPFs, nothing changes", u.unreachable},
		{"end of the last session", u.end},
	}, nil
}

func (u *ulcl) begin() error {
	for _, smf := range []*SMF{u.smf, u.anchor} {
		if _, err := smf.associate(nodeV4(smf.addr), hx("00")); err != nil {
			return err
		}
	}
	s, err := u.open()
	if err != nil {
		return err
	}
	u.fence, u.fencePair = &s.UE, s
	return nil
}

// n9 allocates a tunnel of a UPF on N9.
func (u *ulcl) n9(addr net.IP) tunnel {
	u.nextN9++
	return tunnel{u.nextN9, addr}
}

// ueAddress is the UE IP Address of a PDI: "02" for the source, "06" for the destination.
func (s *ulclSession) ueAddress(flags string) []byte { return tlv(ieUEIPAddress, hx(flags), v4(s.v4)) }

func gtpuRemoval() []byte { return tlv(ieOuterHeaderRemoval, hx("00")) }

// fromN9 is a PDR of the branching point for a tunnel of the anchor.
func (s *ulclSession) fromN9(pdr uint16, t tunnel) []byte {
	through := s.paths[0]
	return createPDR(pdrID(pdr), prec(through.precedence),
		pdi(source(core), explicit(t), plainNI(), s.ueAddress("06")), gtpuRemoval(), farID(through.downFAR), through.qerIDs())
}

// establishBranching establishes the session at the branching point, without the gNB's tunnel.
func (s *ulclSession) establishBranching() error {
	through, local := s.paths[0], s.paths[1]
	answer, err := s.smf.ask(free5gcEstablish, msgEstablishment, 0, nodeV4(s.smf.addr), s.smf.fSEID(s.cp),
		createPDR(pdrID(through.upPDR), prec(through.precedence), pdi(source(access), explicit(s.up), plainNI(),
			s.ueAddress("02")), gtpuRemoval(), farID(through.upFAR), through.qerIDs()),
		s.fromN9(through.downPDR, s.fromAnchor),
		s.createPDRs(local),
		createFAR(farID(through.upFAR), action(forw1), fp(dest(core), plainNI(), outerV4(s.toAnchor))),
		createFAR(farID(through.downFAR), action(forw1), fp(dest(access))),
		createFARs(local),
		createQER(qerID(through.qers[0]), tlv(ieGateStatus, hx("00")), qfiIE(1)), tlv(iePDNType, hx("01")))
	if err != nil {
		return err
	}
	s.seid, err = upSEID(answer, s.cp)
	return err
}

// establishAnchor establishes the session at the anchor. Its downlink FAR has neither a Network Instance nor an
// interface type.
func (s *ulclSession) establishAnchor() error {
	p, smf := s.atAnchor, s.pair.anchor
	answer, err := smf.ask(free5gcEstablish, msgEstablishment, 0, nodeV4(smf.addr), smf.fSEID(s.cp),
		createPDR(pdrID(p.upPDR), prec(p.precedence), pdi(source(access), explicit(s.toAnchor), plainNI(),
			s.ueAddress("02")), gtpuRemoval(), farID(p.upFAR), p.qerIDs()),
		createPDR(pdrID(p.downPDR), prec(p.precedence), pdi(source(core), plainNI(), s.ueAddress("06")),
			farID(p.downFAR), p.qerIDs()),
		createFAR(farID(p.upFAR), action(forw1), fp(dest(core), plainNI())),
		createFAR(farID(p.downFAR), action(forw1), fp(dest(access), outerV4(s.fromAnchor))),
		createQER(qerID(p.qers[0]), tlv(ieGateStatus, hx("00")), qfiIE(1)), tlv(iePDNType, hx("01")))
	if err != nil {
		return err
	}
	s.anchorSEID, err = upSEID(answer, s.cp)
	return err
}

// modifyAnchor modifies the session at the anchor.
func (s *ulclSession) modifyAnchor(ies ...[]byte) error {
	smf := s.pair.anchor
	_, err := smf.ask(free5gcModify, msgModification, s.anchorSEID, smf.fSEID(s.cp), concat(ies...))
	return err
}

// forward sets the gNB's tunnel in both paths of the branching point.
func (s *ulclSession) forward() error {
	_, err := s.modify(s.updateFARs(forw1, 0))
	return err
}

func (u *ulcl) open() (*ulclSession, error) {
	s := &ulclSession{free5gcSession: u.newSession(), pair: u, toAnchor: u.n9(anchorN9), fromAnchor: u.n9(upfN9)}
	qers := []uint32{u.qer()}
	through, local := u.path(0xff, 1, ""), u.path(0x80, 1, flowText)
	through.qers, local.qers = qers, qers
	s.paths = []dataPath{through, local}
	s.atAnchor = u.path(0xff, 1, "")
	s.atAnchor.qers = []uint32{u.qer()}
	if err := s.establishAnchor(); err != nil {
		return nil, fmt.Errorf("anchor: %w", err)
	}
	if err := s.establishBranching(); err != nil {
		return nil, fmt.Errorf("branching point: %w", err)
	}
	return s, s.forward()
}

func (s *ulclSession) releaseBranching() error {
	_, err := s.smf.ask(free5gcModify, msgDeletion, s.seid)
	return err
}

func (s *ulclSession) releaseAnchor() error {
	_, err := s.pair.anchor.ask(free5gcModify, msgDeletion, s.anchorSEID)
	return err
}

func (s *ulclSession) release() error {
	if err := s.releaseBranching(); err != nil {
		return err
	}
	return s.releaseAnchor()
}

// with runs a case with a session and releases it.
func (u *ulcl) with(run func(*ulclSession) error) func() error {
	return func() error {
		s, err := u.open()
		if err != nil {
			return err
		}
		if err := run(s); err != nil {
			return err
		}
		return s.release()
	}
}

// onBothPaths checks that traffic passes by the anchor and by the local branch.
func (s *ulclSession) onBothPaths() error {
	if err := s.bothWays(&s.UE); err != nil {
		return fmt.Errorf("through the anchor: %w", err)
	}
	if err := s.carries(&s.UE, s.pair.local, 1); err != nil {
		return fmt.Errorf("local branch: %w", err)
	}
	return nil
}

func (u *ulcl) basic() error {
	s, err := u.open()
	if err != nil {
		return err
	}
	if err := s.onBothPaths(); err != nil {
		return err
	}
	if err := s.release(); err != nil {
		return err
	}
	return u.wantDead(&s.UE)
}

func (u *ulcl) idle(s *ulclSession) error {
	for number, server := range []*Server{u.server, u.local} {
		if _, err := s.modify(s.updateFARs(buffNocp1, 0)); err != nil {
			return err
		}
		texts := []string{u.text("idle"), u.text("idle"), u.text("idle")}
		for _, text := range texts {
			if err := server.send(s.v4, uePort, text); err != nil {
				return err
			}
		}
		report, err := u.smf.report(1, s.cp)
		if err != nil {
			return err
		}
		if err := wantDownlinkData(report, s.paths[number].downPDR); err != nil {
			return err
		}
		s.acknowledge(report)
		if err := u.settled(); err != nil {
			return fmt.Errorf("before the reactivation: %w", err)
		}
		if err := s.forward(); err != nil {
			return err
		}
		for _, text := range texts {
			if err := s.receives(server, s.down.teid, 1, text); err != nil {
				return err
			}
		}
	}
	return s.onBothPaths()
}

func (u *ulcl) xn(s *ulclSession) error {
	for _, node := range []*Node{u.target, u.gnb} {
		if err := s.switchTo(node); err != nil {
			return err
		}
		if err := s.onBothPaths(); err != nil {
			return err
		}
	}
	return nil
}

// relocated gives the branching point another tunnel for the anchor.
func (u *ulcl) relocated(s *ulclSession) error {
	former := s.paths[0].downPDR
	u.nextPDR++
	s.paths[0].downPDR, s.fromAnchor = u.nextPDR, u.n9(upfN9)
	if _, err := s.modify(s.fromN9(s.paths[0].downPDR, s.fromAnchor)); err != nil {
		return err
	}
	if err := s.modifyAnchor(updateFAR(farID(s.atAnchor.downFAR), action(forw1),
		ufp(dest(access), outerV4(s.fromAnchor), tlv(ieSMFlags, []byte{2})))); err != nil {
		return fmt.Errorf("anchor: %w", err)
	}
	if err := s.node.endMarkers(s.down.teid, 1); err != nil {
		return fmt.Errorf("End Marker of the anchor: %w", err)
	}
	if _, err := s.modify(removePDR(pdrID(former))); err != nil {
		return err
	}
	return s.onBothPaths()
}

// reports waits for the report of an Error Indication, acknowledges it, and checks its tunnel.
func reports(smf *SMF, cp, seid uint64, t tunnel) error {
	report, err := smf.report(4, cp)
	if err != nil {
		return err
	}
	smf.answer(report, session, seid, tlv(ieCause, []byte{causeAccepted}))
	return wantIndicated(report, t)
}

func (u *ulcl) indicated() error {
	s, err := u.open()
	if err != nil {
		return err
	}
	if err := s.releaseBranching(); err != nil {
		return err
	}
	if err := u.server.send(s.v4, uePort, "for nobody"); err != nil {
		return err
	}
	if err := reports(u.anchor, s.cp, s.anchorSEID, s.fromAnchor); err != nil {
		return fmt.Errorf("anchor: %w", err)
	}
	if err := s.establishBranching(); err != nil {
		return err
	}
	if err := s.releaseAnchor(); err != nil {
		return err
	}
	if err := u.sendUp(&s.UE, u.server, 1, "for nobody"); err != nil {
		return err
	}
	if err := reports(u.smf, s.cp, s.seid, s.toAnchor); err != nil {
		return fmt.Errorf("branching point: %w", err)
	}
	return s.releaseBranching()
}

// beside is a session of which the branching point is the anchor, beside its N3. The other UPF knows no session of
// its tunnel, and tells so: the packet went there.
func (u *ulcl) beside() error {
	s := u.newSession()
	p := u.path(0xff, 1, "")
	out := u.n9(anchorN9)
	answer, err := u.smf.ask(free5gcEstablish, msgEstablishment, 0, nodeV4(u.smf.addr), u.smf.fSEID(s.cp),
		createPDR(pdrID(p.upPDR), prec(p.precedence), pdi(source(access), tlv(ieFTEID, hx("05")), plainNI(),
			tlv(ieUEIPAddress, hx("02"), v4(s.v4)), interfaceType(typeN9)), gtpuRemoval(), farID(p.upFAR)),
		createPDR(pdrID(p.downPDR), prec(p.precedence), s.downPDI(p), farID(p.downFAR)),
		createFAR(farID(p.upFAR), action(forw1), fp(dest(core), plainNI())),
		createFAR(farID(p.downFAR), action(forw1), fp(dest(access), outerV4(out))), tlv(iePDNType, hx("01")))
	if err != nil {
		return err
	}
	if s.seid, err = upSEID(answer, s.cp); err != nil {
		return err
	}
	created, _, err := createdPDRs(answer)
	if err != nil {
		return err
	}
	if up := created[p.upPDR]; up == nil || !up.IPv4Address.Equal(upfN9) {
		return fmt.Errorf("F-TEID %+v, not one of %v", up, upfN9)
	}
	if err := u.local.send(s.v4, uePort, "over N9"); err != nil {
		return err
	}
	if err := reports(u.smf, s.cp, s.seid, out); err != nil {
		return err
	}
	_, err = s.release()
	return err
}

func (u *ulcl) unreachable() error {
	nowhere := outerV4(tunnel{1, net.IPv4(10, 0, 99, 1)})
	for _, smf := range []*SMF{u.smf, u.anchor} {
		s := u.fencePair
		seid, far := s.seid, s.paths[0].downFAR
		if smf == u.anchor {
			seid, far = s.anchorSEID, s.atAnchor.downFAR
		}
		answer, err := smf.send(free5gcModify, msgModification, seid, smf.fSEID(s.cp),
			updateFAR(farID(far), action(forw1), ufp(dest(access), nowhere))).wait()
		if err != nil {
			return err
		}
		if err := answer.cause(causeRuleFailure); err != nil {
			return err
		}
		if offending := answer.find(ie.OffendingIE); offending == nil || !bytes.Equal(offending.Payload, u16(ieOuterHeaderCreation)) {
			return fmt.Errorf("Offending IE %v, not Outer Header Creation", offending)
		}
		if err := s.onBothPaths(); err != nil {
			return fmt.Errorf("after the refusal: %w", err)
		}
	}
	return nil
}

func (u *ulcl) end() error {
	u.fence = nil
	return u.fencePair.release()
}
