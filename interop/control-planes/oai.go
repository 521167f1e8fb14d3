package main

import (
	"fmt"
	"net"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
)

// Network Instances of the interfaces, from the configuration of the SMF.
const oaiAccess, oaiCore = "access.oai.org", "core.oai.org"

// oaiFeatures are the CP Function Features that the SMF of OAI announces.
const oaiFeatures = "03"

// oai is the SMF of OAI.
type oai struct {
	*World
	upStarted    time.Time
	nextSEID     uint64
	nextUE       byte
	fenceSession *oaiSession
}

// oaiFlow is a QoS flow: an uplink PDR and FAR with these IDs, and a downlink pair with the next ones.
type oaiFlow struct {
	number     uint16
	qfi        byte
	precedence uint32
	filter     []byte
}

// oaiSession is a PDU session, of IPv4. Its downlink packets have no QFI: there is no QER.
type oaiSession struct {
	*oai
	UE
	cp, seid uint64
	flow     oaiFlow
	urrs     []byte
}

func newOAI(w *World) (*oai, error) {
	smf, err := newSMF(smfAddr)
	if err != nil {
		return nil, err
	}
	w.smf = smf
	return &oai{World: w}, nil
}

func (o *oai) associate() error {
	var err error
	o.upStarted, err = o.smf.associate(nodeV4(o.smf.addr), hx(oaiFeatures))
	return err
}

// associatedByUPF answers an Association Setup Request of the UPF.
func (o *oai) associatedByUPF() error {
	request, err := take(o.smf.setups, "Association Setup Request")
	if err != nil {
		return err
	}
	if id := request.find(ie.NodeID); id == nil {
		return fmt.Errorf("setup without Node ID")
	}
	if err := wantFeatures(request); err != nil {
		return err
	}
	if o.upStarted, err = recoveryTimeStamp(request); err != nil {
		return err
	}
	o.smf.answer(request, plain, 0, nodeV4(o.smf.addr), tlv(ieCause, []byte{causeAccepted}),
		tlv(ieRecoveryTimeStamp, stamp(o.smf.started)), tlv(ieCPFeatures, hx(oaiFeatures)))
	return nil
}

func (o *oai) newSession() *oaiSession {
	o.nextSEID++
	o.nextUE++
	s := &oaiSession{oai: o, cp: o.nextSEID, flow: oaiFlow{number: 1, qfi: 9}}
	s.node, s.qfi, s.unmarked, s.down = o.gnb, 9, true, o.gnb.tunnel()
	s.v4 = net.IPv4(10, 46, 0, o.nextUE)
	return s
}

// choose42 is CHOOSE of IPv4 with CHOOSE ID 42.
func choose42() []byte { return tlv(ieFTEID, hx("0d2a")) }

// createUplink is the uplink PDR and FAR of a flow.
func (s *oaiSession) createUplink(f oaiFlow) []byte {
	return concat(
		createPDR(pdrID(f.number), prec(f.precedence), pdi(source(access), choose42(), text(ieNetworkInstance, oaiAccess),
			tlv(ieUEIPAddress, hx("02"), v4(s.v4)), qfiIE(f.qfi), f.filter, interfaceType(typeN3)),
			tlv(ieOuterHeaderRemoval, hx("00")), farID(uint32(f.number)), s.urrs),
		createFAR(farID(uint32(f.number)), action(forw1), fp(dest(core), text(ieNetworkInstance, oaiCore))),
	)
}

// downPDI is the PDI of a downlink PDR; its 3GPP Interface Type is S1-U, a default.
func (s *oaiSession) downPDI(f oaiFlow) []byte {
	return pdi(source(core), text(ieNetworkInstance, oaiCore), tlv(ieUEIPAddress, hx("06"), v4(s.v4)), f.filter, interfaceType(typeS1U))
}

// createDownlink is the downlink FAR and PDR of a flow, which are sent with the AN tunnel.
func (s *oaiSession) createDownlink(f oaiFlow) []byte {
	number := f.number + 1
	return concat(
		createFAR(farID(uint32(number)), action(forw1), fp(dest(access), text(ieNetworkInstance, oaiAccess), outerV4(s.down))),
		createPDR(pdrID(number), prec(f.precedence), s.downPDI(f), farID(uint32(number)), s.urrs),
	)
}

// establish establishes the session; the header has the SMF's SEID.
func (s *oaiSession) establish(more ...[]byte) error {
	answer, err := s.smf.ask(session, msgEstablishment, s.cp, nodeV4(s.smf.addr), s.smf.fSEID(s.cp),
		s.createUplink(s.flow), concat(more...))
	if err != nil {
		return err
	}
	if s.seid, err = upSEID(answer, s.cp); err != nil {
		return err
	}
	return s.takeTunnel(answer, s.flow.number)
}

// takeTunnel reads the F-TEID of a Created PDR.
func (s *oaiSession) takeTunnel(answer *parsed, pdr uint16) error {
	created, _, err := createdPDRs(answer)
	if err != nil {
		return err
	}
	if created[pdr] == nil {
		return fmt.Errorf("no Created PDR %d", pdr)
	}
	s.up = tunnel{created[pdr].TEID, created[pdr].IPv4Address}
	return nil
}

func (s *oaiSession) modify(ies ...[]byte) (*parsed, error) {
	return s.smf.ask(session, msgModification, s.seid, ies...)
}

func (o *oai) open() (*oaiSession, error) {
	s := o.newSession()
	if err := s.establish(); err != nil {
		return nil, err
	}
	_, err := s.modify(s.createDownlink(s.flow))
	return s, err
}

func (s *oaiSession) release() error {
	_, err := s.smf.ask(session, msgDeletion, s.seid)
	return err
}

func (o *oai) with(run func(*oaiSession) error) func() error {
	return func() error {
		s, err := o.open()
		if err != nil {
			return err
		}
		if err := run(s); err != nil {
			return err
		}
		return s.release()
	}
}
