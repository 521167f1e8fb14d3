package main

import (
	"fmt"
	"net"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

const (
	// Apply Action.
	buff, nocp = 4, 8
	// PFCPSMReq-Flags.
	dropBuffered = 1
	// Report Type.
	usageReport, inactivityReport = 2, 8
	reportTimeout                 = 5 * time.Second
)

// awaitReport waits for a Session Report Request of the session and answers it, with more IEs.
func (s *SMF) awaitReport(session *established, more ...*ie.IE) (*message.SessionReportRequest, error) {
	if err := s.conn.SetReadDeadline(time.Now().Add(reportTimeout)); err != nil {
		return nil, err
	}
	buffer := make([]byte, 65536)
	for {
		n, from, err := s.conn.ReadFromUDP(buffer)
		if err != nil {
			return nil, fmt.Errorf("no report: %w", err)
		}
		parsed, err := message.Parse(buffer[:n])
		if err != nil {
			return nil, fmt.Errorf("go-pfcp does not parse: %w", err)
		}
		report, ok := parsed.(*message.SessionReportRequest)
		if !ok {
			continue
		}
		ies := append([]*ie.IE{ie.NewCause(ie.CauseRequestAccepted)}, more...)
		answer := message.NewSessionReportResponse(0, 0, session.seid, report.Sequence(), 0, ies...)
		octets, err := answer.Marshal()
		if err != nil {
			return nil, err
		}
		if _, err := s.conn.WriteToUDP(octets, from); err != nil {
			return nil, err
		}
		return report, nil
	}
}

// wantReportType checks that a report has exactly these types.
func wantReportType(report *message.SessionReportRequest, want uint8) error {
	if got, err := report.ReportType.ReportType(); err != nil || got != want {
		return fmt.Errorf("Report Type %#x (%v), not %#x", got, err, want)
	}
	return nil
}

// buffering is a session whose downlink FAR has BAR 1.
func buffering(ue net.IP, teid uint32, action ...uint8) []*ie.IE {
	rules := basic(ue)
	rules[3] = ie.NewCreateFAR(ie.NewFARID(2), ie.NewApplyAction(action...), ie.NewBARID(1),
		ie.NewForwardingParameters(
			ie.NewDestinationInterface(destinationAccess),
			ie.NewOuterHeaderCreation(createGTPUv4, teid, gnb, "", 0, 0, 0)))
	return append(rules, ie.NewCreateBAR(ie.NewBARID(1),
		ie.NewDownlinkDataNotificationDelay(100*time.Millisecond),
		ie.NewSuggestedBufferingPacketsCount(20)))
}

// thousand is the number of simultaneous sessions in one scenario.
const thousand = 1000

// manySessions establishes, modifies and deletes sessions that exist at the same time.
func manySessions(smf *SMF, count int) error {
	sessions := make([]*established, 0, count)
	teids := map[uint32]bool{}
	for number := range count {
		ue := net.IPv4(10, 63, byte(number/250), byte(number%250+1))
		session, err := smf.establish(uint64(0x10000+number), basic(ue)...)
		if err != nil {
			return fmt.Errorf("session %d: %w", number, err)
		}
		sessions = append(sessions, session)
		teids[session.teids[1]] = true
	}
	if len(teids) != count {
		return fmt.Errorf("%d TEIDs for %d sessions", len(teids), count)
	}
	for number, session := range sessions {
		tunnel := ie.NewOuterHeaderCreation(createGTPUv4, uint32(0x9000+number), gnb, "", 0, 0, 0)
		update := ie.NewUpdateFAR(ie.NewFARID(2), ie.NewUpdateForwardingParameters(tunnel))
		if _, err := smf.modify(session.seid, update); err != nil {
			return fmt.Errorf("modification of session %d: %w", number, err)
		}
	}
	for number, session := range sessions {
		if _, err := smf.delete(session.seid); err != nil {
			return fmt.Errorf("deletion of session %d: %w", number, err)
		}
	}
	return nil
}

// reportScenarios are those of buffering, reports that the UPF sends, and traffic endpoints.
var reportScenarios = []scenario{
	{"BAR: BUFF with NOCP, another count, FORW with DROBU", func(upf *UPF) error {
		return associated(upf, "127.0.3.1", func(smf *SMF) error {
			rules := buffering(net.IPv4(10, 62, 1, 1), 0x3100, buff|nocp)
			return withSession(smf, rules, func(s *established) error {
				update := ie.NewUpdateBARWithinSessionModificationRequest(
					ie.NewBARID(1), ie.NewSuggestedBufferingPacketsCount(5))
				if _, err := smf.modify(s.seid, update); err != nil {
					return fmt.Errorf("Update BAR: %w", err)
				}
				wake := []*ie.IE{
					ie.NewUpdateFAR(ie.NewFARID(2), ie.NewApplyAction(forw)),
					ie.NewPFCPSMReqFlags(dropBuffered),
				}
				if _, err := smf.modify(s.seid, wake...); err != nil {
					return fmt.Errorf("FORW with DROBU: %w", err)
				}
				_, err := smf.modify(s.seid, ie.NewUpdateFAR(ie.NewFARID(2), ie.NewApplyAction(buff, 0)))
				return err
			})
		})
	}},
	{"FAR that names a BAR that is not there", func(upf *UPF) error {
		return associated(upf, "127.0.3.2", func(smf *SMF) error {
			rules := buffering(net.IPv4(10, 62, 2, 1), 0x3200, buff)
			answer, err := smf.askToEstablish(0x1004, rules[:4]...)
			if err != nil {
				return err
			}
			return wantCause(answer.Cause, ie.CauseRuleCreationModificationFailure)
		})
	}},
	{"periodic usage reports, answered, with numbers that count on", func(upf *UPF) error {
		return associated(upf, "127.0.3.3", func(smf *SMF) error {
			urr := []*ie.IE{ie.NewURRID(5)}
			rules := []*ie.IE{
				uplink(1, removeGTPU, 1, urr, choosing()),
				downlink(2, 2, net.IPv4(10, 62, 3, 1), urr),
				toCore(1, forw), toAccess(2, 0x3300),
				ie.NewCreateURR(ie.NewURRID(5), ie.NewMeasurementMethod(0, 1, 0),
					ie.NewReportingTriggers(1, 0), ie.NewMeasurementPeriod(time.Second)),
			}
			session, err := smf.establish(0x1005, rules...)
			if err != nil {
				return err
			}
			for number := uint32(0); number < 2; number++ {
				report, err := smf.awaitReport(session)
				if err != nil {
					return err
				}
				if report.SEID() != 0x1005 {
					return fmt.Errorf("header SEID %#x, not ours", report.SEID())
				}
				if err := wantReportType(report, usageReport); err != nil {
					return err
				}
				if err := wantReport(report.UsageReport, number); err != nil {
					return fmt.Errorf("report %d: %w", number, err)
				}
			}
			deleted, err := smf.delete(session.seid)
			if err != nil {
				return err
			}
			return wantReport(deleted.UsageReport, 2)
		})
	}},
	{"user plane inactivity", func(upf *UPF) error {
		return associated(upf, "127.0.3.4", func(smf *SMF) error {
			rules := append(basic(net.IPv4(10, 62, 4, 1)),
				ie.NewUserPlaneInactivityTimer(time.Second))
			return withSession(smf, rules, func(s *established) error {
				report, err := smf.awaitReport(s)
				if err != nil {
					return err
				}
				return wantReportType(report, inactivityReport)
			})
		})
	}},
	{"a thousand sessions at once", func(upf *UPF) error {
		return associated(upf, "127.0.3.6", func(smf *SMF) error {
			return manySessions(smf, thousand)
		})
	}},
	{"traffic endpoint: one F-TEID for the PDRs that name it", func(upf *UPF) error {
		return associated(upf, "127.0.3.5", func(smf *SMF) error {
			ue := net.IPv4(10, 62, 5, 1)
			named := ie.NewTrafficEndpointID(3)
			rules := []*ie.IE{
				uplink(1, removeGTPU, 1, nil, named, sdf("permit out 6 from any to assigned", 0)),
				uplink(3, removeGTPU, 1, nil, named),
				downlink(2, 2, ue, nil), toCore(1, forw), toAccess(2, 0x3500),
				ie.NewCreateTrafficEndpoint(named, choosing(),
					ie.NewUEIPAddress(ueSource, ue.String(), "", 0, 0)),
			}
			answer, err := smf.askToEstablish(0x1006, rules...)
			if err != nil {
				return err
			}
			if err := accepted(answer.Cause, answer.OffendingIE, answer.FailedRuleID); err != nil {
				return err
			}
			if len(answer.CreatedTrafficEndpoint) != 1 {
				return fmt.Errorf("%d Created Traffic Endpoints", len(answer.CreatedTrafficEndpoint))
			}
			created := answer.CreatedTrafficEndpoint[0]
			if id, err := created.TrafficEndpointID(); err != nil || id != 3 {
				return fmt.Errorf("Traffic Endpoint ID %d (%v)", id, err)
			}
			fteid, err := created.LocalFTEID()
			if err != nil || fteid.TEID == 0 || !fteid.IPv4Address.Equal(upf.N3) {
				return fmt.Errorf("F-TEID %+v (%v)", fteid, err)
			}
			seid, err := answer.UPFSEID.FSEID()
			if err != nil {
				return err
			}
			if _, err := smf.modify(seid.SEID, ie.NewRemoveTrafficEndpoint(named)); err != nil {
				return fmt.Errorf("removal: %w", err)
			}
			_, err = smf.delete(seid.SEID)
			return err
		})
	}},
}
