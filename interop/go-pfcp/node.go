package main

import (
	"bytes"
	"fmt"
	"net"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

// nodeScenarios need no session. Each uses its own address.
var nodeScenarios = []scenario{
	{"heartbeat without an association, from another port than 8805", func(upf *UPF) error {
		smf, err := newSMF(upf, "127.0.1.1", 0)
		if err != nil {
			return err
		}
		defer smf.close()
		request := message.NewHeartbeatRequest(smf.next(),
			ie.NewRecoveryTimeStamp(time.Now()), ie.NewSourceIPAddress(smf.IP, nil, 32))
		answer, err := ask[*message.HeartbeatResponse](smf, request)
		if err != nil {
			return err
		}
		_, err = answer.RecoveryTimeStamp.RecoveryTimeStamp()
		return err
	}},
	{"message of version 2", func(upf *UPF) error {
		smf, err := newSMF(upf, "127.0.1.2", 0)
		if err != nil {
			return err
		}
		defer smf.close()
		answer, err := smf.exchange([]byte{0x40, 1, 0, 12, 0, 0, 9, 0, 0, 96, 0, 4, 1, 2, 3, 4})
		if err != nil {
			return err
		}
		parsed, err := message.Parse(answer)
		if err != nil {
			return err
		}
		version, ok := parsed.(*message.VersionNotSupportedResponse)
		if !ok || version.Sequence() != 9 || version.Version() != 1 {
			return fmt.Errorf("answered with %s of version %d", parsed.MessageTypeName(), parsed.Version())
		}
		return nil
	}},
	{"association with an FQDN as Node ID, from another port than 8805", func(upf *UPF) error {
		smf, err := newSMF(upf, "127.0.1.3", 0)
		if err != nil {
			return err
		}
		defer smf.close()
		return smf.associateAs(ie.NewNodeID("", "", "smf.example.org"))
	}},
	{"association, its repetition in the same octets, its release", func(upf *UPF) error {
		smf, err := newSMF(upf, "127.0.1.4", 8805)
		if err != nil {
			return err
		}
		defer smf.close()
		setup := message.NewAssociationSetupRequest(smf.next(),
			ie.NewNodeID(smf.IP.String(), "", ""), ie.NewRecoveryTimeStamp(smf.started))
		octets, err := setup.Marshal()
		if err != nil {
			return err
		}
		first, err := smf.exchange(octets)
		if err != nil {
			return err
		}
		second, err := smf.exchange(octets)
		if err != nil {
			return err
		}
		if !bytes.Equal(first, second) {
			return fmt.Errorf("the repetition is answered differently")
		}
		release := message.NewAssociationReleaseRequest(smf.next(), ie.NewNodeID(smf.IP.String(), "", ""))
		answer, err := ask[*message.AssociationReleaseResponse](smf, release)
		if err != nil {
			return err
		}
		return wantCause(answer.Cause, ie.CauseRequestAccepted)
	}},
	{"session without an association", func(upf *UPF) error {
		smf, err := newSMF(upf, "127.0.1.5", 0)
		if err != nil {
			return err
		}
		defer smf.close()
		answer, err := smf.askToEstablish(1, basic(net.IPv4(10, 61, 0, 1))...)
		if err != nil {
			return err
		}
		return wantCause(answer.Cause, ie.CauseNoEstablishedPFCPAssociation)
	}},
	{"deletion of a session that does not exist", func(upf *UPF) error {
		return associated(upf, "127.0.1.6", func(smf *SMF) error {
			request := message.NewSessionDeletionRequest(0, 0, 0xffff_ffff_ffff_ffff, smf.next(), 0)
			answer, err := ask[*message.SessionDeletionResponse](smf, request)
			if err != nil {
				return err
			}
			if answer.SEID() != 0 {
				return fmt.Errorf("header SEID %#x", answer.SEID())
			}
			return wantCause(answer.Cause, ie.CauseSessionContextNotFound)
		})
	}},
}

// associated runs a case with an association from the address.
func associated(upf *UPF, addr string, run func(*SMF) error) error {
	smf, err := newSMF(upf, addr, 8805)
	if err != nil {
		return err
	}
	defer smf.close()
	if err := smf.associate(); err != nil {
		return fmt.Errorf("association: %w", err)
	}
	return run(smf)
}
