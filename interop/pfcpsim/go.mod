module adit.example/interop/pfcpsim

go 1.24

tool (
	github.com/omec-project/pfcpsim/cmd/pfcpctl
	github.com/omec-project/pfcpsim/cmd/pfcpsim
)

require github.com/omec-project/pfcpsim v1.2.0

require (
	github.com/c-robinson/iplib v1.0.8 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/jessevdk/go-flags v1.6.1 // indirect
	github.com/pborman/getopt/v2 v2.1.0 // indirect
	github.com/wmnsk/go-pfcp v0.0.24 // indirect
	go.uber.org/multierr v1.10.0 // indirect
	go.uber.org/zap v1.27.0 // indirect
	golang.org/x/net v0.28.0 // indirect
	golang.org/x/sys v0.24.0 // indirect
	golang.org/x/text v0.17.0 // indirect
	google.golang.org/genproto v0.0.0-20230110181048-76db0878b65f // indirect
	google.golang.org/grpc v1.67.0 // indirect
	google.golang.org/protobuf v1.34.2 // indirect
)
