package main

import (
	"fmt"
	"net"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

const answerTimeout = 2 * time.Second

// Service not supported. Spec: TS 29.244 §8.2.1.
const causeServiceNotSupported = 76

// UPF is the user plane function under test.
type UPF struct {
	Addr *net.UDPAddr
	N3   net.IP
}

// SMF is a CP function with its own socket.
type SMF struct {
	IP       net.IP
	conn     *net.UDPConn
	upf      *UPF
	sequence uint32
	started  time.Time
}

// newSMF binds a port of the address; port 0 means any free port.
func newSMF(upf *UPF, addr string, port int) (*SMF, error) {
	ip := net.ParseIP(addr)
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: ip, Port: port})
	if err != nil {
		return nil, err
	}
	return &SMF{IP: ip, conn: conn, upf: upf, started: time.Now()}, nil
}

func (s *SMF) close() { _ = s.conn.Close() }

func (s *SMF) next() uint32 {
	s.sequence++
	return s.sequence
}

// exchange sends octets and returns the octets of the answer.
func (s *SMF) exchange(request []byte) ([]byte, error) {
	if _, err := s.conn.WriteToUDP(request, s.upf.Addr); err != nil {
		return nil, err
	}
	if err := s.conn.SetReadDeadline(time.Now().Add(answerTimeout)); err != nil {
		return nil, err
	}
	buffer := make([]byte, 65536)
	n, from, err := s.conn.ReadFromUDP(buffer)
	if err != nil {
		return nil, fmt.Errorf("no answer: %w", err)
	}
	if !from.IP.Equal(s.upf.Addr.IP) || from.Port != s.upf.Addr.Port {
		return nil, fmt.Errorf("answered from %v", from)
	}
	return buffer[:n], nil
}

// ask sends a message and returns the answer as T, whose sequence number must be that of the message.
func ask[T message.Message](s *SMF, request message.Message) (T, error) {
	var none T
	octets := make([]byte, request.MarshalLen())
	if err := request.MarshalTo(octets); err != nil {
		return none, err
	}
	answer, err := s.exchange(octets)
	if err != nil {
		return none, err
	}
	parsed, err := message.Parse(answer)
	if err != nil {
		return none, fmt.Errorf("go-pfcp does not parse the answer: %w", err)
	}
	typed, ok := parsed.(T)
	if !ok {
		return none, fmt.Errorf("answered with %s", parsed.MessageTypeName())
	}
	if typed.Sequence() != request.Sequence() {
		return none, fmt.Errorf("sequence %d, not %d", typed.Sequence(), request.Sequence())
	}
	return typed, nil
}

// associate sets up an association with the address as Node ID.
func (s *SMF) associate() error {
	return s.associateAs(ie.NewNodeID(s.IP.String(), "", ""))
}

func (s *SMF) associateAs(nodeID *ie.IE) error {
	request := message.NewAssociationSetupRequest(s.next(),
		nodeID, ie.NewRecoveryTimeStamp(s.started), ie.NewCPFunctionFeatures(0))
	answer, err := ask[*message.AssociationSetupResponse](s, request)
	if err != nil {
		return err
	}
	if err := wantCause(answer.Cause, ie.CauseRequestAccepted); err != nil {
		return err
	}
	if id, err := answer.NodeID.NodeID(); err != nil || id != s.upf.Addr.IP.String() {
		return fmt.Errorf("Node ID %q (%v)", id, err)
	}
	stamp, err := answer.RecoveryTimeStamp.RecoveryTimeStamp()
	if err != nil || time.Since(stamp) > time.Hour || time.Until(stamp) > time.Hour {
		return fmt.Errorf("recovery time stamp %v (%v)", stamp, err)
	}
	if !answer.UPFunctionFeatures.HasFTUP() {
		return fmt.Errorf("FTUP is not offered")
	}
	return nil
}

// established has the UPF's identifiers of a session.
type established struct {
	seid  uint64
	teids map[uint16]uint32
}

// establish creates a session and checks the answer's F-SEID and Created PDRs.
func (s *SMF) establish(cpSEID uint64, rules ...*ie.IE) (*established, error) {
	answer, err := s.askToEstablish(cpSEID, rules...)
	if err != nil {
		return nil, err
	}
	if err := accepted(answer.Cause, answer.OffendingIE, answer.FailedRuleID); err != nil {
		return nil, err
	}
	if answer.SEID() != cpSEID {
		return nil, fmt.Errorf("header SEID %#x, not ours", answer.SEID())
	}
	seid, err := answer.UPFSEID.FSEID()
	if err != nil {
		return nil, err
	}
	if seid.SEID == 0 || !seid.IPv4Address.Equal(s.upf.Addr.IP) {
		return nil, fmt.Errorf("UP F-SEID %+v", seid)
	}
	result := &established{seid: seid.SEID, teids: map[uint16]uint32{}}
	for _, created := range answer.CreatedPDR {
		id, err := created.PDRID()
		if err != nil {
			return nil, err
		}
		fteid, err := created.FTEID()
		if err != nil {
			return nil, fmt.Errorf("Created PDR %d: %w", id, err)
		}
		if fteid.HasCh() || fteid.TEID == 0 || !fteid.IPv4Address.Equal(s.upf.N3) {
			return nil, fmt.Errorf("F-TEID %+v of PDR %d", fteid, id)
		}
		result.teids[id] = fteid.TEID
	}
	return result, nil
}

func (s *SMF) askToEstablish(cpSEID uint64, rules ...*ie.IE) (*message.SessionEstablishmentResponse, error) {
	ies := append([]*ie.IE{
		ie.NewNodeID(s.IP.String(), "", ""),
		ie.NewFSEID(cpSEID, s.IP, nil),
		ie.NewPDNType(ie.PDNTypeIPv4),
	}, rules...)
	request := message.NewSessionEstablishmentRequest(0, 0, 0, s.next(), 0, ies...)
	return ask[*message.SessionEstablishmentResponse](s, request)
}

// modify modifies a session, which the UPF must accept.
func (s *SMF) modify(seid uint64, rules ...*ie.IE) (*message.SessionModificationResponse, error) {
	request := message.NewSessionModificationRequest(0, 0, seid, s.next(), 0, rules...)
	answer, err := ask[*message.SessionModificationResponse](s, request)
	if err != nil {
		return nil, err
	}
	return answer, accepted(answer.Cause, answer.OffendingIE, nil)
}

// delete deletes a session, which the UPF must accept.
func (s *SMF) delete(seid uint64) (*message.SessionDeletionResponse, error) {
	request := message.NewSessionDeletionRequest(0, 0, seid, s.next(), 0)
	answer, err := ask[*message.SessionDeletionResponse](s, request)
	if err != nil {
		return nil, err
	}
	return answer, accepted(answer.Cause, answer.OffendingIE, nil)
}

func accepted(cause, offending, failed *ie.IE) error {
	got, err := cause.Cause()
	if err != nil {
		return err
	}
	if got == ie.CauseRequestAccepted {
		return nil
	}
	if got == causeServiceNotSupported && offending != nil {
		if offender, err := offending.OffendingIE(); err == nil {
			return notOffered(fmt.Sprintf("IE %d is not supported", offender))
		}
	}
	text := fmt.Sprintf("refused with Cause %d", got)
	if offending != nil {
		if offender, err := offending.OffendingIE(); err == nil {
			text += fmt.Sprintf(", Offending IE %d", offender)
		}
	}
	if failed != nil {
		if rule, err := failed.FailedRuleID(); err == nil {
			text += fmt.Sprintf(", rule %d", rule)
		}
	}
	return fmt.Errorf("%s", text)
}

func wantCause(cause *ie.IE, want uint8) error {
	if got, err := cause.Cause(); err != nil || got != want {
		return fmt.Errorf("Cause %d (%v), not %d", got, err, want)
	}
	return nil
}
