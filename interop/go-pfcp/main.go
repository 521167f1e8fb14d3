// Command go-pfcp is a CP function on github.com/wmnsk/go-pfcp. It sends a UPF the requests of an SMF
// and checks every answer with the parser of that library. It prints one JSON array of results.
//
// Usage: go-pfcp UPF-ADDRESS N3-ADDRESS (the control functions are 127.0.0.0/8 hosts).
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
)

// Result is the result of a case.
type Result struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	// Skipped names the feature that the UPF does not offer.
	Skipped string `json:"skipped,omitempty"`
}

// notOffered is the error of a case whose rules the UPF refuses as not supported.
type notOffered string

func (n notOffered) Error() string { return string(n) }

// scenario is one case. Its error is what the UPF did wrong.
type scenario struct {
	name string
	run  func(upf *UPF) error
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go-pfcp UPF-ADDRESS N3-ADDRESS")
		os.Exit(2)
	}
	upf := &UPF{
		Addr: &net.UDPAddr{IP: net.ParseIP(os.Args[1]), Port: 8805},
		N3:   net.ParseIP(os.Args[2]),
	}
	var results []Result
	for _, scenario := range slices.Concat(nodeScenarios, sessionScenarios, reportScenarios, pfdScenarios) {
		result := Result{Name: scenario.name, OK: true}
		var missing notOffered
		if err := scenario.run(upf); errors.As(err, &missing) {
			result.Skipped = missing.Error()
		} else if err != nil {
			result.OK, result.Error = false, err.Error()
		}
		results = append(results, result)
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(results); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
