package main

import (
	"net"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
)

// The headers of free5GC's session requests have MP; only establishments have priority 0.
var (
	free5gcEstablish = header{flags: 0x23}
	free5gcModify    = header{flags: 0x23, last: 0xc0}
)

// free5gc is the SMF of free5GC.
type free5gc struct {
	*World
	upStarted time.Time
	// Rule IDs count per UPF, not per session; the SMF allocates TEIDs.
	nextSEID         uint64
	nextPDR          uint16
	nextFAR, nextQER uint32
	nextURR          uint32
	nextTEID         uint32
	nextUE           byte
	fenceSession     *free5gcSession
}

// dataPath is the pair of PDRs for a QoS flow, or for all other packets.
type dataPath struct {
	upPDR, downPDR uint16
	upFAR, downFAR uint32
	precedence     uint32
	qers           []uint32
	qfi            byte
	flow           string
}

// free5gcSession is a PDU session, always of type IPv4.
type free5gcSession struct {
	*free5gc
	UE
	cp, seid uint64
	paths    []dataPath
	urrs     []uint32
}

func newFree5GC(w *World) (*free5gc, error) {
	smf, err := newSMF(smfAddr)
	if err != nil {
		return nil, err
	}
	w.smf = smf
	return &free5gc{World: w}, nil
}

func (f *free5gc) associate() error {
	var err error
	f.upStarted, err = f.smf.associate(nodeV4(f.smf.addr), hx("00"))
	return err
}

func plainNI() []byte { return text(ieNetworkInstance, dnn) }

// path allocates the rule IDs for a pair of PDRs.
func (f *free5gc) path(precedence uint32, qfi byte, flow string) dataPath {
	f.nextPDR += 2
	f.nextFAR += 2
	return dataPath{upPDR: f.nextPDR - 1, downPDR: f.nextPDR, upFAR: f.nextFAR - 1, downFAR: f.nextFAR,
		precedence: precedence, qfi: qfi, flow: flow}
}

func (f *free5gc) qer() uint32 { f.nextQER++; return f.nextQER }

// newSession allocates the next address and TEID.
func (f *free5gc) newSession() *free5gcSession {
	f.nextSEID++
	f.nextUE++
	f.nextTEID++
	s := &free5gcSession{free5gc: f, cp: f.nextSEID}
	s.node, s.qfi, s.down = f.gnb, 1, f.gnb.tunnel()
	s.v4 = net.IPv4(10, 60, 0, f.nextUE)
	s.up = tunnel{f.nextTEID, upfN3}
	return s
}

// explicit is an F-TEID that the SMF allocated.
func explicit(t tunnel) []byte { return tlv(ieFTEID, []byte{1}, u32(t.teid), v4(t.addr)) }

func (p dataPath) filter() []byte {
	if p.flow == "" {
		return nil
	}
	return sdfText(p.flow)
}

func (s *free5gcSession) urrIDs() []byte {
	var ids []byte
	for _, id := range s.urrs {
		ids = append(ids, urrID(id)...)
	}
	return ids
}

func (p dataPath) qerIDs() []byte {
	var ids []byte
	for _, id := range p.qers {
		ids = append(ids, qerID(id)...)
	}
	return ids
}

// downPDI is the whole PDI of the downlink PDR.
func (s *free5gcSession) downPDI(p dataPath) []byte {
	return pdi(source(core), plainNI(), tlv(ieUEIPAddress, hx("06"), v4(s.v4)), p.filter())
}

func (s *free5gcSession) createPDRs(p dataPath) []byte {
	return concat(
		createPDR(pdrID(p.upPDR), prec(p.precedence), pdi(source(access), explicit(s.up), plainNI(),
			tlv(ieUEIPAddress, hx("02"), v4(s.v4)), p.filter()),
			tlv(ieOuterHeaderRemoval, hx("00")), farID(p.upFAR), s.urrIDs(), p.qerIDs()),
		createPDR(pdrID(p.downPDR), prec(p.precedence), s.downPDI(p), farID(p.downFAR), s.urrIDs(), p.qerIDs()),
	)
}

// createFARs are both FARs of a path; the downlink one has neither a tunnel nor a Network Instance.
func createFARs(p dataPath) []byte {
	return concat(
		createFAR(farID(p.upFAR), action(forw1), fp(dest(core), plainNI())),
		createFAR(farID(p.downFAR), action(forw1), fp(dest(access))),
	)
}

// flowQER is the QER of a flow with guaranteed rates.
func flowQER(p dataPath) []byte {
	return createQER(qerID(p.qers[0]), tlv(ieGateStatus, hx("00")), rates(ieMBR, 100_000), rates(ieGBR, 10_000), qfiIE(p.qfi))
}

// establish establishes the session: the default path, and the flows that the policy already has.
func (s *free5gcSession) establish(urrs []byte, flows ...dataPath) error {
	first := s.path(0xff, 1, "")
	first.qers = []uint32{s.qer(), s.qer()}
	s.paths = append([]dataPath{first}, flows...)
	var pdrs, fars, qers []byte
	for _, p := range s.paths {
		pdrs, fars = append(pdrs, s.createPDRs(p)...), append(fars, createFARs(p)...)
	}
	for _, p := range flows {
		qers = append(qers, flowQER(p)...)
	}
	qers = append(qers, concat(
		createQER(qerID(first.qers[0]), tlv(ieGateStatus, hx("00")), qfiIE(1)),
		createQER(qerID(first.qers[1]), tlv(ieGateStatus, hx("00")), rates(ieMBR, 1_000_000), qfiIE(1)))...)
	answer, err := s.smf.ask(free5gcEstablish, msgEstablishment, 0, nodeV4(s.smf.addr), s.smf.fSEID(s.cp),
		pdrs, fars, urrs, qers, tlv(iePDNType, hx("01")))
	if err != nil {
		return err
	}
	s.seid, err = upSEID(answer, s.cp)
	return err
}

// modify modifies the session; the request starts with the CP F-SEID.
func (s *free5gcSession) modify(ies ...[]byte) (*parsed, error) {
	return s.smf.ask(free5gcModify, msgModification, s.seid, s.smf.fSEID(s.cp), concat(ies...))
}

// updatePDRs are complete Update PDRs of all downlink PDRs.
func (s *free5gcSession) updatePDRs() []byte {
	var ies []byte
	for _, p := range s.paths {
		ies = append(ies, updatePDR(pdrID(p.downPDR), prec(p.precedence), s.downPDI(p),
			farID(p.downFAR), s.urrIDs(), p.qerIDs())...)
	}
	return ies
}

// updateFARs are Update FARs of all downlink FARs with the gNB's tunnel.
func (s *free5gcSession) updateFARs(apply string, flags byte) []byte {
	var ies []byte
	for _, p := range s.paths {
		ies = append(ies, updateFAR(farID(p.downFAR), action(apply),
			ufp(dest(access), plainNI(), outerV4(s.down), tlv(ieSMFlags, []byte{flags})))...)
	}
	return ies
}

// activate sets the AN tunnel.
func (s *free5gcSession) activate() error {
	_, err := s.modify(s.updatePDRs(), s.updateFARs(forw1, 0))
	return err
}

func (f *free5gc) open(flows ...dataPath) (*free5gcSession, error) {
	s := f.newSession()
	if err := s.establish(nil, flows...); err != nil {
		return nil, err
	}
	return s, s.activate()
}

func (s *free5gcSession) release() (*parsed, error) {
	return s.smf.ask(free5gcModify, msgDeletion, s.seid)
}

// with runs a case with a session and releases it.
func (f *free5gc) with(run func(*free5gcSession) error) func() error {
	return func() error {
		s, err := f.open()
		if err != nil {
			return err
		}
		if err := run(s); err != nil {
			return err
		}
		_, err = s.release()
		return err
	}
}

// acknowledge answers a report with the UPF's SEID.
func (s *free5gcSession) acknowledge(report *parsed) {
	s.smf.answer(report, session, s.seid, tlv(ieCause, []byte{causeAccepted}))
}

// usage returns the volumes of a URR in the Usage Reports of an answer or report.
func usage(m *parsed, urr uint32) (uint64, int, error) {
	var all []*ie.IE
	for _, kind := range []uint16{
		ie.UsageReportWithinSessionModificationResponse, ie.UsageReportWithinSessionDeletionResponse,
		ie.UsageReportWithinSessionReportRequest,
	} {
		all = append(all, m.all(kind)...)
	}
	return volumes(all, urr)
}
