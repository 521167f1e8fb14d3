package main

import (
	"fmt"
	"net"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

// Unknown Application ID. Spec: TS 29.244 §8.2.1.
const causeUnknownApplication = 81

// managePFDs provisions PFDs of applications and returns the Cause.
func (s *SMF) managePFDs(applications ...*ie.IE) (*ie.IE, error) {
	request := message.NewPFDManagementRequest(s.next(), applications...)
	answer, err := ask[*message.PFDManagementResponse](s, request)
	if err != nil {
		return nil, err
	}
	return answer.Cause, nil
}

// providePFDs provisions PFDs, which the UPF must accept.
func (s *SMF) providePFDs(applications ...*ie.IE) error {
	cause, err := s.managePFDs(applications...)
	if err != nil {
		return err
	}
	return wantCause(cause, ie.CauseRequestAccepted)
}

// flows is an application with flow descriptions; without any, the application is removed.
func flows(id string, texts ...string) *ie.IE {
	members := []*ie.IE{ie.NewApplicationID(id)}
	for _, text := range texts {
		contents := ie.NewPFDContents(text, "", "", "", "", nil, nil, nil)
		members = append(members, ie.NewPFDContext(contents))
	}
	return ie.NewApplicationIDsPFDs(members...)
}

// named is a session with an uplink PDR that names an application.
func named(ue net.IP, id string) []*ie.IE {
	rules := basic(ue)
	rules[0] = uplink(1, removeGTPU, 1, nil, choosing(), ie.NewApplicationID(id))
	return rules
}

// pfdScenarios are those of PFD Management.
var pfdScenarios = []scenario{
	{"PFDs of an application that a PDR names, changed and withdrawn", func(upf *UPF) error {
		return associated(upf, "127.0.4.1", func(smf *SMF) error {
			if err := smf.providePFDs(flows("web", "permit out 6 from any 443 to assigned")); err != nil {
				return err
			}
			rules := named(net.IPv4(10, 64, 1, 1), "web")
			return withSession(smf, rules, func(*established) error {
				more := flows("web", "permit out 6 from any 443 to assigned",
					"permit out 17 from any 443 to assigned")
				if err := smf.providePFDs(more); err != nil {
					return fmt.Errorf("change: %w", err)
				}
				if err := smf.providePFDs(flows("web")); err != nil {
					return fmt.Errorf("withdrawal: %w", err)
				}
				return nil
			})
		})
	}},
	{"PFD that has a URL is refused", func(upf *UPF) error {
		return associated(upf, "127.0.4.2", func(smf *SMF) error {
			url := ie.NewPFDContents("", "^http://example.org/", "", "", "", nil, nil, nil)
			cause, err := smf.managePFDs(ie.NewApplicationIDsPFDs(
				ie.NewApplicationID("url"), ie.NewPFDContext(url)))
			if err != nil {
				return err
			}
			return wantCause(cause, ie.CauseServiceNotSupported)
		})
	}},
	{"application that nobody provided", func(upf *UPF) error {
		return associated(upf, "127.0.4.3", func(smf *SMF) error {
			answer, err := smf.askToEstablish(0x1007, named(net.IPv4(10, 64, 3, 1), "nobody")...)
			if err != nil {
				return err
			}
			return wantCause(answer.Cause, causeUnknownApplication)
		})
	}},
}
