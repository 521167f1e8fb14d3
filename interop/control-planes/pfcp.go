package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

// Message types. Spec: TS 29.244 §7.3.
const (
	msgHeartbeat        = 1
	msgAssociationSetup = 5
	msgEstablishment    = 50
	msgModification     = 52
	msgDeletion         = 54
	msgReport           = 56
	causeAccepted       = 1
	causeNotFound       = 65
	causeNoAssociation  = 72
	causeRuleFailure    = 73
	pfcpPort            = 8805
	sequenceMask        = 0xff_ffff
	pfcpDatagramMax     = 65536
	inboxSize           = 64
)

// SMF is a CP function towards one UPF. It answers heartbeats itself; reports and
// association setups of the UPF wait until a case takes them.
type SMF struct {
	addr net.IP
	// started is the Recovery Time Stamp.
	started time.Time
	conn    *net.UDPConn
	upf     *net.UDPAddr
	// others are the same CP function towards further UPFs, over the same socket.
	others []*SMF

	mutex    sync.Mutex
	sequence uint32
	waiting  map[uint32]chan *parsed
	// answered has the answers to the UPF's requests, for retransmissions.
	answered map[uint32][]byte
	// seen counts the transmissions of each request.
	seen map[uint32]int
	// broken has the UPF's messages that cannot be parsed.
	broken []string

	heartbeats chan *parsed
	reports    chan *parsed
	setups     chan *parsed
}

// parsed is a message of the UPF: go-pfcp's view, and the IEs as go-pfcp splits them.
type parsed struct {
	message.Message
	ies    []*ie.IE
	octets []byte
	// upf is the sender.
	upf net.IP
}

// newSMFs binds the PFCP port of the address and returns the CP function towards each UPF.
func newSMFs(addr net.IP, upfs ...net.IP) ([]*SMF, error) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: addr, Port: pfcpPort})
	if err != nil {
		return nil, err
	}
	var all []*SMF
	for _, upf := range upfs {
		all = append(all, &SMF{
			addr: addr, started: time.Now(), conn: conn,
			upf:        &net.UDPAddr{IP: upf, Port: pfcpPort},
			waiting:    map[uint32]chan *parsed{},
			answered:   map[uint32][]byte{},
			seen:       map[uint32]int{},
			heartbeats: make(chan *parsed, inboxSize),
			reports:    make(chan *parsed, inboxSize),
			setups:     make(chan *parsed, inboxSize),
		})
	}
	all[0].others = all[1:]
	go all[0].read()
	return all, nil
}

// newSMF is a CP function with a socket of its own and one UPF.
func newSMF(addr net.IP) (*SMF, error) {
	all, err := newSMFs(addr, upfN4)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// towards is the CP function that messages of a UPF are for.
func (s *SMF) towards(upf net.IP) *SMF {
	for _, other := range s.others {
		if other.upf.IP.Equal(upf) {
			return other
		}
	}
	return s
}

func (s *SMF) close() { _ = s.conn.Close() }

// stamp is a time as NTP seconds.
func stamp(t time.Time) []byte {
	const ntpToUnix = 2_208_988_800
	return u32(uint32(t.Unix() + ntpToUnix))
}

// parse parses a datagram with go-pfcp.
func parse(octets []byte) (*parsed, error) {
	view, err := message.Parse(octets)
	if err != nil {
		return nil, fmt.Errorf("go-pfcp does not parse %s: %w", hex.EncodeToString(octets), err)
	}
	begin := 8
	if octets[0]&1 != 0 {
		begin = 16
	}
	if want := int(binary.BigEndian.Uint16(octets[2:])) + 4; want != len(octets) {
		return nil, fmt.Errorf("length %d of a datagram of %d octets", want, len(octets))
	}
	ies, err := ie.ParseMultiIEs(octets[begin:])
	if err != nil {
		return nil, fmt.Errorf("go-pfcp does not parse the IEs %s: %w", hex.EncodeToString(octets), err)
	}
	return &parsed{Message: view, ies: ies, octets: octets}, nil
}

func (s *SMF) read() {
	for {
		buffer := make([]byte, pfcpDatagramMax)
		n, from, err := s.conn.ReadFromUDP(buffer)
		if err != nil {
			if isClosed(err) {
				return
			}
			// An ICMP error while the UPF is down.
			continue
		}
		got, err := parse(buffer[:n])
		to := s.towards(from.IP)
		to.mutex.Lock()
		if err != nil {
			to.broken = append(to.broken, err.Error())
		} else {
			got.upf = from.IP
			to.sort(got)
		}
		to.mutex.Unlock()
	}
}

// sort passes a message to the waiting receiver. The caller holds the mutex.
func (s *SMF) sort(got *parsed) {
	sequence := got.Sequence()
	switch got.MessageType() {
	case msgHeartbeat:
		answer := plain.message(msgHeartbeat+1, 0, sequence, tlv(ieRecoveryTimeStamp, stamp(s.started)))
		_, _ = s.conn.WriteToUDP(answer, s.upf)
		put(s.heartbeats, got)
	case msgReport, msgAssociationSetup:
		if answer, ok := s.answered[sequence]; ok {
			_, _ = s.conn.WriteToUDP(answer, s.upf)
			return
		}
		s.seen[sequence]++
		if s.seen[sequence] > 1 {
			return
		}
		if got.MessageType() == msgReport {
			put(s.reports, got)
		} else {
			put(s.setups, got)
		}
	default:
		if waiter, ok := s.waiting[sequence]; ok {
			delete(s.waiting, sequence)
			waiter <- got
		}
	}
}

func put(inbox chan *parsed, got *parsed) {
	select {
	case inbox <- got:
	default:
	}
}

// forget drops the state of a UPF that has ended.
func (s *SMF) forget() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.answered, s.seen = map[uint32][]byte{}, map[uint32]int{}
	drain(s.heartbeats)
	drain(s.reports)
	drain(s.setups)
}

func drain(inbox chan *parsed) {
	for {
		select {
		case <-inbox:
		default:
			return
		}
	}
}

// pending is an unanswered request.
type pending struct {
	smf      *SMF
	kind     byte
	sequence uint32
	octets   []byte
	answer   chan *parsed
}

// send sends a request and does not wait.
func (s *SMF) send(h header, kind byte, seid uint64, ies ...[]byte) *pending {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.sequence = (s.sequence + 1) & sequenceMask
	p := &pending{s, kind, s.sequence, h.message(kind, seid, s.sequence, ies...), make(chan *parsed, 1)}
	s.waiting[p.sequence] = p.answer
	_, _ = s.conn.WriteToUDP(p.octets, s.upf)
	return p
}

// wait returns the answer, and retransmits the request meanwhile.
func (p *pending) wait() (*parsed, error) {
	for range requestAttempts {
		select {
		case got := <-p.answer:
			if got.MessageType() != p.kind+1 {
				return nil, fmt.Errorf("message %d answered with %s", p.kind, got.MessageTypeName())
			}
			return got, nil
		case <-time.After(requestTimeout):
			_, _ = p.smf.conn.WriteToUDP(p.octets, p.smf.upf)
		}
	}
	return nil, fmt.Errorf("no answer to message %d", p.kind)
}

// accepted waits for an answer, whose Cause must be acceptance.
func (p *pending) accepted() (*parsed, error) {
	got, err := p.wait()
	if err != nil {
		return nil, err
	}
	return got, got.cause(causeAccepted)
}

// ask sends a request and waits for its acceptance.
func (s *SMF) ask(h header, kind byte, seid uint64, ies ...[]byte) (*parsed, error) {
	return s.send(h, kind, seid, ies...).accepted()
}

// find returns the first IE of the type at the top level of the message.
func (m *parsed) find(kind uint16) *ie.IE { return find(m.ies, kind) }

func find(ies []*ie.IE, kind uint16) *ie.IE {
	for _, one := range ies {
		if one.Type == kind {
			return one
		}
	}
	return nil
}

// all returns all IEs of the type at the top level of the message.
func (m *parsed) all(kind uint16) []*ie.IE {
	var found []*ie.IE
	for _, one := range m.ies {
		if one.Type == kind {
			found = append(found, one)
		}
	}
	return found
}

// cause checks the Cause; the error names the IE or rule that the answer reports.
func (m *parsed) cause(want uint8) error {
	one := m.find(ie.Cause)
	if one == nil {
		return fmt.Errorf("%s without Cause", m.MessageTypeName())
	}
	got, err := one.Cause()
	if err != nil {
		return err
	}
	if got == want {
		return nil
	}
	complaint := fmt.Sprintf("%s: Cause %d, not %d", m.MessageTypeName(), got, want)
	if offending := m.find(ie.OffendingIE); offending != nil {
		complaint += fmt.Sprintf(", Offending IE %x", offending.Payload)
	}
	if failed := m.find(ie.FailedRuleID); failed != nil {
		complaint += fmt.Sprintf(", Failed Rule ID %x", failed.Payload)
	}
	return fmt.Errorf("%s", complaint)
}

// answer answers a report or an association setup of the UPF, and its retransmissions.
func (s *SMF) answer(to *parsed, h header, seid uint64, ies ...[]byte) {
	s.answerAs(to, h, to.Sequence(), seid, ies...)
}

// answerAs is answer with a given sequence number.
func (s *SMF) answerAs(to *parsed, h header, sequence uint32, seid uint64, ies ...[]byte) {
	octets := h.message(to.MessageType()+1, seid, sequence, ies...)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.answered[to.Sequence()] = octets
	_, _ = s.conn.WriteToUDP(octets, s.upf)
}

// take waits for a message in an inbox.
func take(inbox chan *parsed, what string) (*parsed, error) {
	select {
	case got := <-inbox:
		return got, nil
	case <-time.After(arrivalTimeout):
		return nil, fmt.Errorf("no %s", what)
	}
}

// report waits for a Session Report Request whose Report Type has the bits and whose header has the
// SEID of the SMF.
func (s *SMF) report(kind uint8, cpSEID uint64) (*parsed, error) {
	got, err := take(s.reports, "Session Report Request")
	if err != nil {
		return nil, err
	}
	if got.SEID() != cpSEID {
		return nil, fmt.Errorf("report for SEID %#x, not %#x", got.SEID(), cpSEID)
	}
	one := got.find(ie.ReportType)
	if one == nil {
		return nil, fmt.Errorf("report without Report Type")
	}
	if has, err := one.ReportType(); err != nil || has&kind != kind {
		return nil, fmt.Errorf("Report Type %#x (%v), not %#x", has, err, kind)
	}
	return got, nil
}

// repeated waits until the UPF has sent a request so many times.
func (s *SMF) repeated(request *parsed, times int) error {
	for end := time.Now().Add(arrivalTimeout); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		s.mutex.Lock()
		seen := s.seen[request.Sequence()]
		s.mutex.Unlock()
		if seen >= times {
			return nil
		}
	}
	return fmt.Errorf("request %d is not repeated", request.Sequence())
}

// heartbeat exchanges a Heartbeat with a Recovery Time Stamp and returns that of the UPF.
func (s *SMF) heartbeat(own time.Time) (time.Time, error) {
	got, err := s.send(plain, msgHeartbeat, 0, tlv(ieRecoveryTimeStamp, stamp(own))).wait()
	if err != nil {
		return time.Time{}, err
	}
	return recoveryTimeStamp(got)
}

func recoveryTimeStamp(m *parsed) (time.Time, error) {
	one := m.find(ie.RecoveryTimeStamp)
	if one == nil {
		return time.Time{}, fmt.Errorf("%s without Recovery Time Stamp", m.MessageTypeName())
	}
	return one.RecoveryTimeStamp()
}

// associate sets an association up with the Node ID and features, and returns the UPF's time stamp.
func (s *SMF) associate(nodeID, features []byte) (time.Time, error) {
	got, err := s.ask(plain, msgAssociationSetup, 0,
		nodeID, tlv(ieRecoveryTimeStamp, stamp(s.started)), tlv(ieCPFeatures, features))
	if err != nil {
		return time.Time{}, err
	}
	id := got.find(ie.NodeID)
	if id == nil {
		return time.Time{}, fmt.Errorf("answer without Node ID")
	}
	if name, err := id.NodeID(); err != nil || name != s.upf.IP.String() {
		return time.Time{}, fmt.Errorf("Node ID %q (%v)", name, err)
	}
	if err := wantFeatures(got); err != nil {
		return time.Time{}, err
	}
	return recoveryTimeStamp(got)
}

// wantFeatures checks that every control plane can read the UP Function Features: FTUP, and 2 to 6 octets.
func wantFeatures(m *parsed) error {
	features := m.find(ie.UPFunctionFeatures)
	if features == nil {
		return fmt.Errorf("no UP Function Features")
	}
	if n := len(features.Payload); n < 2 || n > 6 {
		return fmt.Errorf("UP Function Features of %d octets", n)
	}
	if !features.HasFTUP() {
		return fmt.Errorf("FTUP is not offered")
	}
	return nil
}

// nodeV4 is a Node ID of an IPv4 address; nodeName is one of an FQDN as labels.
func nodeV4(ip net.IP) []byte { return tlv(ieNodeID, []byte{0}, v4(ip)) }
func nodeName(labels ...string) []byte {
	value := []byte{2}
	for _, one := range labels {
		value = append(append(value, byte(len(one))), one...)
	}
	return tlv(ieNodeID, value)
}

// fSEID is a CP F-SEID.
func (s *SMF) fSEID(seid uint64) []byte { return tlv(ieFSEID, []byte{2}, u64(seid), v4(s.addr)) }

// upSEID returns the UPF's SEID in the answer to an establishment, and checks the IEs that every SMF reads.
func upSEID(m *parsed, cpSEID uint64) (uint64, error) {
	if m.SEID() != cpSEID {
		return 0, fmt.Errorf("header SEID %#x, not %#x", m.SEID(), cpSEID)
	}
	if m.find(ie.NodeID) == nil {
		return 0, fmt.Errorf("answer without Node ID")
	}
	one := m.find(ie.FSEID)
	if one == nil {
		return 0, fmt.Errorf("answer without F-SEID")
	}
	fseid, err := one.FSEID()
	if err != nil {
		return 0, err
	}
	if fseid.SEID == 0 || !fseid.IPv4Address.Equal(m.upf) {
		return 0, fmt.Errorf("UP F-SEID %+v", fseid)
	}
	return fseid.SEID, nil
}

// createdPDRs returns the F-TEIDs that the UPF allocated, by PDR, in the order of the answer.
func createdPDRs(m *parsed) (map[uint16]*ie.FTEIDFields, []uint16, error) {
	result := map[uint16]*ie.FTEIDFields{}
	var order []uint16
	for _, created := range m.all(ie.CreatedPDR) {
		id, err := created.PDRID()
		if err != nil {
			return nil, nil, err
		}
		if find(created.ChildIEs, ie.FTEID) == nil {
			// It contains only an address.
			continue
		}
		fteid, err := created.FTEID()
		if err != nil {
			return nil, nil, fmt.Errorf("Created PDR %d: %w", id, err)
		}
		if fteid.HasCh() || fteid.TEID == 0 || fteid.IPv4Address == nil {
			return nil, nil, fmt.Errorf("F-TEID %+v of PDR %d", fteid, id)
		}
		result[id] = fteid
		order = append(order, id)
	}
	return result, order, nil
}

// volumes sums the volumes of Usage Reports of a URR in a message. Unit: octets.
func volumes(reports []*ie.IE, urr uint32) (total uint64, count int, err error) {
	for _, one := range reports {
		id, err := one.URRID()
		if err != nil {
			return 0, 0, err
		}
		trigger := find(one.ChildIEs, ie.UsageReportTrigger)
		if trigger == nil || len(trigger.Payload) != 3 {
			return 0, 0, fmt.Errorf("Usage Report Trigger that is not 3 octets long")
		}
		if id != urr {
			continue
		}
		count++
		if measured := find(one.ChildIEs, ie.VolumeMeasurement); measured != nil {
			fields, err := measured.VolumeMeasurement()
			if err != nil {
				return 0, 0, err
			}
			total += fields.TotalVolume
		}
	}
	return total, count, nil
}
