package main

import (
	"fmt"
	"net"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
)

// The headers of SD-Core's session requests: MP, which modifications do not have, and a spare half that
// is not zero in deletions.
var (
	sdcoreEstablish = header{flags: 0x23}
	sdcoreDelete    = header{flags: 0x23, last: 0x0c}
)

// causeFailure is the Cause of an SMF that cannot page: request rejected.
const causeFailure = 64

// sdcore is the SMF of SD-Core.
type sdcore struct {
	*World
	// smf is the SMF of the world, or another one.
	smf          *SMF
	nodeID       []byte
	upStarted    time.Time
	nextSEID     uint64
	nextUE       byte
	fenceSession *sdcoreSession
}

// policyRule is a PCC rule: a pair of PDRs, and a QER.
type policyRule struct {
	number     uint32
	precedence uint32
	qfi        byte
	// filter is an SDF Filter; nil is none.
	filter []byte
	gbr    bool
}

func (r policyRule) upPDR() uint16   { return uint16(2*r.number - 1) }
func (r policyRule) downPDR() uint16 { return uint16(2 * r.number) }
func (r policyRule) upFAR() uint32   { return 2*r.number - 1 }
func (r policyRule) downFAR() uint32 { return 2 * r.number }

// sdcoreSession is a PDU session, of IPv4.
type sdcoreSession struct {
	*sdcore
	UE
	cp, seid uint64
	rules    []policyRule
}

func newSDCore(w *World) (*sdcore, error) {
	smf, err := newSMF(smfAddr)
	if err != nil {
		return nil, err
	}
	w.smf = smf
	return &sdcore{World: w, smf: smf, nodeID: nodeV4(smfAddr)}, nil
}

func (c *sdcore) associate() error {
	var err error
	c.upStarted, err = c.smf.associate(c.nodeID, hx("00"))
	return err
}

func (c *sdcore) newSession() *sdcoreSession {
	c.nextSEID++
	c.nextUE++
	s := &sdcoreSession{sdcore: c, cp: c.nextSEID}
	s.node, s.qfi, s.down = c.gnb, 1, c.gnb.tunnel()
	s.v4 = net.IPv4(172, 250, 0, c.nextUE)
	return s
}

// defaultRule is the rule of a session without policy.
func defaultRule() policyRule { return policyRule{number: 1, precedence: 0xff, qfi: 1} }

// chooseNoFamily is CHOOSE with neither V4 nor V6.
func chooseNoFamily() []byte { return tlv(ieFTEID, hx("04")) }

// ueIP has no S/D on either side; nil leaves the address to the UPF.
func (s *sdcoreSession) ueIP() []byte {
	if s.v4 == nil {
		return tlv(ieUEIPAddress, hx("10"))
	}
	return tlv(ieUEIPAddress, hx("02"), v4(s.v4))
}

func (s *sdcoreSession) downPDI(r policyRule) []byte {
	return pdi(source(core), plainNI(), s.ueIP(), r.filter)
}

func (r policyRule) createQER() []byte {
	var gbr []byte
	if r.gbr {
		gbr = rates(ieGBR, 10_000)
	}
	return createQER(qerID(r.number), tlv(ieGateStatus, hx("00")), qfiIE(r.qfi), rates(ieMBR, 100_000), gbr)
}

// create has the IEs that create a rule.
func (s *sdcoreSession) create(r policyRule) []byte {
	return concat(
		createPDR(pdrID(r.upPDR()), prec(r.precedence), pdi(source(access), chooseNoFamily(), plainNI(), s.ueIP(), r.filter),
			tlv(ieOuterHeaderRemoval, hx("0000")), farID(r.upFAR()), qerID(r.number)),
		createPDR(pdrID(r.downPDR()), prec(r.precedence), s.downPDI(r), farID(r.downFAR()), qerID(r.number)),
		createFAR(farID(r.upFAR()), action(forw1), fp(dest(sgiLAN), plainNI())),
		createFAR(farID(r.downFAR()), action(drop1)),
		r.createQER(),
	)
}

// establish establishes the session. The session uses the first F-TEID of the answer, and its UE address if requested.
func (s *sdcoreSession) establish(rules ...policyRule) error {
	s.rules = rules
	var ies []byte
	for _, r := range rules {
		ies = append(ies, s.create(r)...)
	}
	answer, err := s.smf.ask(sdcoreEstablish, msgEstablishment, 0, s.nodeID, s.smf.fSEID(s.cp), ies, tlv(iePDNType, hx("01")))
	if err != nil {
		return err
	}
	if s.seid, err = upSEID(answer, s.cp); err != nil {
		return err
	}
	created, order, err := createdPDRs(answer)
	if err != nil {
		return err
	}
	if len(order) == 0 {
		return fmt.Errorf("no Created PDR")
	}
	first := created[order[0]]
	s.up = tunnel{first.TEID, first.IPv4Address}
	return s.takeAddress(answer)
}

// takeAddress reads the UE IP Address of the first Created PDR, which must be present only if requested.
func (s *sdcoreSession) takeAddress(answer *parsed) error {
	asked := s.v4 == nil
	for _, created := range answer.all(ie.CreatedPDR) {
		one := find(created.ChildIEs, ie.UEIPAddress)
		switch {
		case one != nil && !asked:
			return fmt.Errorf("UE IP Address in a Created PDR that nobody asked for")
		case one != nil:
			fields, err := one.UEIPAddress()
			if err != nil {
				return err
			}
			s.v4 = fields.IPv4Address
			return nil
		}
	}
	if asked {
		return fmt.Errorf("no UE IP Address")
	}
	return nil
}

// modify modifies the session; the request starts with the CP F-SEID and has no MP.
func (s *sdcoreSession) modify(ies ...[]byte) (*parsed, error) {
	return s.smf.ask(session, msgModification, s.seid, s.smf.fSEID(s.cp), concat(ies...))
}

// updateFARs are Update FARs of all downlink FARs, with the gNB's tunnel unless it is omitted.
func (s *sdcoreSession) updateFARs(apply string, outer, flags []byte) []byte {
	var ies []byte
	for _, r := range s.rules {
		ies = append(ies, updateFAR(farID(r.downFAR()), action(apply), ufp(dest(access), plainNI(), outer, flags))...)
	}
	return ies
}

// activate sets the AN tunnel.
func (s *sdcoreSession) activate() error {
	var ies []byte
	for _, r := range s.rules {
		ies = append(ies, updatePDR(pdrID(r.downPDR()), prec(r.precedence), s.downPDI(r), farID(r.downFAR()), qerID(r.number))...)
	}
	_, err := s.modify(ies, s.updateFARs(forw1, outerV4(s.down), nil))
	return err
}

func (c *sdcore) open(rules ...policyRule) (*sdcoreSession, error) {
	s := c.newSession()
	if len(rules) == 0 {
		rules = []policyRule{defaultRule()}
	}
	if err := s.establish(rules...); err != nil {
		return nil, err
	}
	return s, s.activate()
}

func (s *sdcoreSession) release() error {
	_, err := s.smf.ask(sdcoreDelete, msgDeletion, s.seid, s.smf.fSEID(s.cp))
	return err
}

func (c *sdcore) with(run func(*sdcoreSession) error) func() error {
	return func() error {
		s, err := c.open()
		if err != nil {
			return err
		}
		if err := run(s); err != nil {
			return err
		}
		return s.release()
	}
}

// answerReport answers with the SMF's own SEID in the header, and with PFCPSRRsp-Flags.
func (s *sdcoreSession) answerReport(report *parsed, cause byte, flags string) {
	s.smf.answer(report, session, s.cp, tlv(ieCause, []byte{cause}), tlv(ieSRRspFlags, hx(flags)))
}
