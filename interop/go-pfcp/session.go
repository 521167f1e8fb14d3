package main

import (
	"fmt"
	"net"

	"github.com/wmnsk/go-pfcp/ie"
)

const (
	sourceAccess      = 0
	sourceCore        = 1
	destinationAccess = 0
	destinationCore   = 1
	// F-TEID flags.
	v4, choose, chooseID = 1, 4, 8
	// UE IP Address flags.
	ueSource, ueDestination = 2, 6
	// Outer Header Removal and Creation.
	removeGTPU, removeGTPUAnyIP = 0, 6
	createGTPUv4                = 0x100
	forw                        = 2
	gnb                         = "10.0.3.1"
)

// uplink is a PDR from the access side; more has further IEs of its PDI.
func uplink(id uint16, removal uint8, far uint32, qers []*ie.IE, pdi ...*ie.IE) *ie.IE {
	members := append([]*ie.IE{ie.NewSourceInterface(sourceAccess)}, pdi...)
	return ie.NewCreatePDR(append([]*ie.IE{
		ie.NewPDRID(id), ie.NewPrecedence(100), ie.NewPDI(members...),
		ie.NewOuterHeaderRemoval(removal, 0), ie.NewFARID(far),
	}, qers...)...)
}

// downlink is a PDR from the core side; more has further IEs of its PDI.
func downlink(id uint16, far uint32, ue net.IP, qers []*ie.IE, pdi ...*ie.IE) *ie.IE {
	members := append([]*ie.IE{
		ie.NewSourceInterface(sourceCore),
		ie.NewUEIPAddress(ueDestination, ue.String(), "", 0, 0),
	}, pdi...)
	return ie.NewCreatePDR(append([]*ie.IE{
		ie.NewPDRID(id), ie.NewPrecedence(100), ie.NewPDI(members...), ie.NewFARID(far),
	}, qers...)...)
}

func toCore(id uint32, action ...uint8) *ie.IE {
	return ie.NewCreateFAR(ie.NewFARID(id), ie.NewApplyAction(action...),
		ie.NewForwardingParameters(ie.NewDestinationInterface(destinationCore)))
}

func toAccess(id, teid uint32) *ie.IE {
	return ie.NewCreateFAR(ie.NewFARID(id), ie.NewApplyAction(forw),
		ie.NewForwardingParameters(
			ie.NewDestinationInterface(destinationAccess),
			ie.NewOuterHeaderCreation(createGTPUv4, teid, gnb, "", 0, 0, 0)))
}

func choosing() *ie.IE { return ie.NewFTEID(v4|choose, 0, nil, nil, 0) }

func choosingShared(id uint8) *ie.IE { return ie.NewFTEID(v4|choose|chooseID, 0, nil, nil, id) }

// basic is a session of two PDRs and two FARs.
func basic(ue net.IP) []*ie.IE {
	return []*ie.IE{
		uplink(1, removeGTPU, 1, nil, choosing()), downlink(2, 2, ue, nil),
		toCore(1, forw), toAccess(2, 0x100),
	}
}

func sdf(text string, id uint32) *ie.IE { return ie.NewSDFFilter(text, "", "", "", id) }

// withSession establishes rules, runs the case, and deletes the session.
func withSession(smf *SMF, rules []*ie.IE, run func(*established) error) error {
	session, err := smf.establish(0x1001, rules...)
	if err != nil {
		return err
	}
	if err := run(session); err != nil {
		return err
	}
	if _, err := smf.delete(session.seid); err != nil {
		return fmt.Errorf("deletion: %w", err)
	}
	return nil
}

// sessionScenarios share only the UPF: each has its own association and UEs.
var sessionScenarios = []scenario{
	{"CHOOSE gives every PDR a TEID of its own", func(upf *UPF) error {
		return associated(upf, "127.0.2.1", func(smf *SMF) error {
			ue := net.IPv4(10, 61, 1, 1)
			rules := append(basic(ue), uplink(3, removeGTPU, 1, nil, choosing()))
			return withSession(smf, rules, func(s *established) error {
				if len(s.teids) != 2 || s.teids[1] == s.teids[3] {
					return fmt.Errorf("TEIDs %v", s.teids)
				}
				return nil
			})
		})
	}},
	{"CHOOSE ID gives its PDRs one TEID; outer header removal of kind 6", func(upf *UPF) error {
		return associated(upf, "127.0.2.2", func(smf *SMF) error {
			ue := net.IPv4(10, 61, 2, 1)
			rules := []*ie.IE{
				uplink(1, removeGTPUAnyIP, 1, nil, choosingShared(5), sdf("permit out 6 from any to assigned", 0)),
				uplink(3, removeGTPUAnyIP, 1, nil, choosingShared(5)),
				uplink(4, removeGTPUAnyIP, 1, nil, choosingShared(6)),
				downlink(2, 2, ue, nil), toCore(1, forw), toAccess(2, 0x200),
			}
			return withSession(smf, rules, func(s *established) error {
				if len(s.teids) != 3 || s.teids[1] != s.teids[3] || s.teids[1] == s.teids[4] {
					return fmt.Errorf("TEIDs %v", s.teids)
				}
				return nil
			})
		})
	}},
	{"two QERs on a PDR, the first without MBR", func(upf *UPF) error {
		return associated(upf, "127.0.2.3", func(smf *SMF) error {
			qers := []*ie.IE{ie.NewQERID(7), ie.NewQERID(8)}
			rules := []*ie.IE{
				uplink(1, removeGTPU, 1, qers, choosing()),
				downlink(2, 2, net.IPv4(10, 61, 3, 1), qers),
				toCore(1, forw), toAccess(2, 0x300),
				ie.NewCreateQER(ie.NewQERID(7), ie.NewGateStatus(0, 0), ie.NewQFI(9)),
				ie.NewCreateQER(ie.NewQERID(8), ie.NewGateStatus(0, 0), ie.NewMBR(100_000, 200_000)),
			}
			return withSession(smf, rules, func(s *established) error {
				update := ie.NewUpdateQER(ie.NewQERID(7), ie.NewGateStatus(1, 0), ie.NewQFI(5))
				_, err := smf.modify(s.seid, update)
				return err
			})
		})
	}},
	{"several SDF filters, one bidirectional and referred to by its identifier", func(upf *UPF) error {
		return associated(upf, "127.0.2.4", func(smf *SMF) error {
			rules := []*ie.IE{
				uplink(1, removeGTPU, 1, nil, choosing(),
					sdf("permit out 17 from 192.0.2.0/24 53,1000-2000 to assigned", 42),
					sdf("permit out ip from 198.51.100.0/24 to assigned", 0)),
				downlink(2, 2, net.IPv4(10, 61, 4, 1), nil, sdf("", 42)),
				toCore(1, forw), toAccess(2, 0x400),
			}
			return withSession(smf, rules, func(*established) error { return nil })
		})
	}},
	{"SDF filter identifier that nobody defined", func(upf *UPF) error {
		return associated(upf, "127.0.2.5", func(smf *SMF) error {
			rules := []*ie.IE{
				uplink(1, removeGTPU, 1, nil, choosing()),
				downlink(2, 2, net.IPv4(10, 61, 5, 1), nil, sdf("", 42)),
				toCore(1, forw), toAccess(2, 0x500),
			}
			return refused(smf, rules, ie.CauseRuleCreationModificationFailure, ie.SDFFilter, 2)
		})
	}},
	{"Update PDR without a PDI", func(upf *UPF) error {
		return associated(upf, "127.0.2.6", func(smf *SMF) error {
			return withSession(smf, basic(net.IPv4(10, 61, 6, 1)), func(s *established) error {
				_, err := smf.modify(s.seid, ie.NewUpdatePDR(ie.NewPDRID(2), ie.NewPrecedence(7)))
				return err
			})
		})
	}},
	{"Apply Action of two octets", func(upf *UPF) error {
		return associated(upf, "127.0.2.7", func(smf *SMF) error {
			rules := basic(net.IPv4(10, 61, 7, 1))
			rules[2] = toCore(1, forw, 0)
			return withSession(smf, rules, func(s *established) error {
				update := ie.NewUpdateFAR(ie.NewFARID(1), ie.NewApplyAction(1, 0))
				_, err := smf.modify(s.seid, update)
				return err
			})
		})
	}},
	{"path switch", func(upf *UPF) error {
		return associated(upf, "127.0.2.8", func(smf *SMF) error {
			return withSession(smf, basic(net.IPv4(10, 61, 8, 1)), func(s *established) error {
				tunnel := ie.NewOuterHeaderCreation(createGTPUv4, 0x808, gnb, "", 0, 0, 0)
				update := ie.NewUpdateFAR(ie.NewFARID(2), ie.NewUpdateForwardingParameters(tunnel))
				_, err := smf.modify(s.seid, update)
				return err
			})
		})
	}},
	{"PDR that names a FAR that is not there", func(upf *UPF) error {
		return associated(upf, "127.0.2.9", func(smf *SMF) error {
			rules := basic(net.IPv4(10, 61, 9, 1))
			rules[1] = downlink(2, 77, net.IPv4(10, 61, 9, 1), nil)
			return refused(smf, rules, ie.CauseRuleCreationModificationFailure, ie.FARID, 2)
		})
	}},
	{"PDR without F-TEID and UE IP address", func(upf *UPF) error {
		return associated(upf, "127.0.2.10", func(smf *SMF) error {
			rules := append(basic(net.IPv4(10, 61, 10, 1)), uplink(3, removeGTPU, 1, nil))
			return withSession(smf, rules, func(s *established) error {
				if len(s.teids) != 1 {
					return fmt.Errorf("TEIDs %v", s.teids)
				}
				return nil
			})
		})
	}},
	{"URR: immediate report on query, last report on deletion", func(upf *UPF) error {
		return associated(upf, "127.0.2.14", func(smf *SMF) error {
			urr := []*ie.IE{ie.NewURRID(5)}
			rules := []*ie.IE{
				uplink(1, removeGTPU, 1, urr, choosing()),
				downlink(2, 2, net.IPv4(10, 61, 14, 1), urr),
				toCore(1, forw), toAccess(2, 0xe00),
				ie.NewCreateURR(ie.NewURRID(5), ie.NewMeasurementMethod(0, 1, 0),
					ie.NewReportingTriggers(2, 0), ie.NewVolumeThreshold(1, 1_000_000, 0, 0)),
			}
			session, err := smf.establish(0x1003, rules...)
			if err != nil {
				return err
			}
			queried, err := smf.modify(session.seid, ie.NewQueryURR(ie.NewURRID(5)))
			if err != nil {
				return err
			}
			if err := wantReport(queried.UsageReport, 0); err != nil {
				return fmt.Errorf("query: %w", err)
			}
			deleted, err := smf.delete(session.seid)
			if err != nil {
				return err
			}
			if err := wantReport(deleted.UsageReport, 1); err != nil {
				return fmt.Errorf("deletion: %w", err)
			}
			return nil
		})
	}},
	{"unknown and vendor-specific IEs are passed over", func(upf *UPF) error {
		return associated(upf, "127.0.2.11", func(smf *SMF) error {
			rules := append(basic(net.IPv4(10, 61, 11, 1)),
				ie.New(0x7abc, []byte{1, 2, 3}), ie.NewVendorSpecificIE(0x8abc, 10415, []byte{4, 5}))
			return withSession(smf, rules, func(*established) error { return nil })
		})
	}},
	{"two control functions do not see each other's sessions", func(upf *UPF) error {
		return associated(upf, "127.0.2.12", func(mine *SMF) error {
			return associated(upf, "127.0.2.13", func(other *SMF) error {
				return withSession(mine, basic(net.IPv4(10, 61, 12, 1)), func(s *established) error {
					if _, err := other.delete(s.seid); err == nil {
						return fmt.Errorf("a stranger deleted the session")
					}
					return nil
				})
			})
		})
	}},
}

// wantReport checks for one Usage Report of URR 5 with a sequence number and no volume.
func wantReport(reports []*ie.IE, sequence uint32) error {
	if len(reports) != 1 {
		return fmt.Errorf("%d Usage Reports", len(reports))
	}
	if id, err := reports[0].URRID(); err != nil || id != 5 {
		return fmt.Errorf("URR ID %d (%v)", id, err)
	}
	if number, err := reports[0].URSEQN(); err != nil || number != sequence {
		return fmt.Errorf("UR-SEQN %d (%v), not %d", number, err, sequence)
	}
	volume, err := reports[0].VolumeMeasurement()
	if err != nil || volume.TotalVolume != 0 {
		return fmt.Errorf("volume %+v (%v)", volume, err)
	}
	return nil
}

// refused checks that an establishment is refused because of a PDR.
func refused(smf *SMF, rules []*ie.IE, cause uint8, offending uint16, pdr uint32) error {
	answer, err := smf.askToEstablish(0x1002, rules...)
	if err != nil {
		return err
	}
	if err := wantCause(answer.Cause, cause); err != nil {
		return err
	}
	if got, err := answer.OffendingIE.OffendingIE(); err != nil || got != offending {
		return fmt.Errorf("Offending IE %d (%v), not %d", got, err, offending)
	}
	kind, err := answer.FailedRuleID.RuleIDType()
	if err != nil || kind != ie.RuleIDTypePDR {
		return fmt.Errorf("Failed Rule ID of kind %d (%v)", kind, err)
	}
	if rule, err := answer.FailedRuleID.FailedRuleID(); err != nil || rule != pdr {
		return fmt.Errorf("Failed Rule ID %d (%v), not %d", rule, err, pdr)
	}
	return nil
}
