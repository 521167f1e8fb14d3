// Command control-planes sends a UPF what the SMFs of Open5GS, free5GC, SD-Core and OAI send, octet for
// octet, and checks every answer and the packets that the UPF sends. go-pfcp parses the answers. The
// profiles ulcl and epc have two UPFs in a row.
//
// Usage: control-planes PROFILE, in the network that world.go describes.
//
// It prints one JSON object per line: {"name", "ok", "detail"} for each case, or {"request": "restart"},
// which asks for the UPF to be killed and started again and waits for a line on standard input.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// result is the result of a case; detail is what the UPF did wrong.
type result struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// testCase is one procedure of a control plane.
type testCase struct {
	name string
	run  func() error
}

// profile is a control plane: its name and its cases.
type profile struct {
	name  string
	cases func(*World) ([]testCase, error)
}

var profiles = []profile{
	{"open5gs", open5gsCases},
	{"free5gc", free5gcCases},
	{"sd-core", sdcoreCases},
	{"oai", oaiCases},
	{"ulcl", ulclCases},
	{"epc", epcPairCases},
}

var (
	lines = bufio.NewReader(os.Stdin)
	out   = json.NewEncoder(os.Stdout)
)

// restartUPF requests a kill and restart of the UPF.
func restartUPF() error {
	if err := out.Encode(map[string]string{"request": "restart"}); err != nil {
		return err
	}
	_, err := lines.ReadString('\n')
	return err
}

func main() {
	if len(os.Args) == 2 {
		for _, profile := range profiles {
			if profile.name == os.Args[1] {
				if err := run(profile); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				return
			}
		}
	}
	fmt.Fprintln(os.Stderr, "usage: control-planes open5gs|free5gc|sd-core|oai|ulcl|epc")
	os.Exit(2)
}

func run(p profile) error {
	w, err := newWorld()
	if err != nil {
		return err
	}
	cases, err := p.cases(w)
	if err != nil {
		return err
	}
	for _, one := range cases {
		err := w.carryOut(one)
		told := result{Name: one.name, OK: err == nil}
		if err != nil {
			told.Detail = err.Error()
			w.clear()
		}
		if err := out.Encode(told); err != nil {
			return err
		}
	}
	return nil
}

// carryOut runs a case and checks that no packet or message is left.
func (w *World) carryOut(one testCase) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("panic: %v", why)
		}
	}()
	if err := one.run(); err != nil {
		return err
	}
	return w.settled()
}
