module adit.example/interop/go-pfcp

go 1.24

require github.com/wmnsk/go-pfcp v0.0.24
