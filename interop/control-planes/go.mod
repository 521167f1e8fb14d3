module adit.example/interop/control-planes

go 1.24

require github.com/wmnsk/go-pfcp v0.0.24
