package mcptest

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// habits are servers that violate the protocol in different ways. They write their messages without the SDK, in the era before 2026-07-28.
var habits = map[string]func(){
	"names":   func() { script(func(string, json.RawMessage) {}) },
	"endless": func() { script(func(string, json.RawMessage) { endless() }) },
	"foreign": func() {
		script(func(_ string, id json.RawMessage) {
			for i := range 100 {
				say(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"forged"}]}}`, 1_000_000+i)
			}
			answer(id, "too late")
		})
	},
	"twice": func() {
		script(func(_ string, id json.RawMessage) {
			answer(id, "first")
			answer(id, "second")
		})
	},
	"flood": func() {
		script(func(_ string, id json.RawMessage) {
			for i := range 1_500 {
				say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"nobody","progress":%d}}`, i)
			}
			answer(id, "done")
		})
	},
	"telling": func() {
		script(func(_ string, id json.RawMessage) {
			for i := range 20 {
				say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"line %d"}}`, i)
			}
			answer(id, "told")
		})
	},
	"banner": func() {
		fmt.Println("Server is starting …")
		script(func(_ string, id json.RawMessage) { answer(id, "fine") })
	},
	"task": func() {
		script(func(name string, id json.RawMessage) {
			switch name {
			case "bash":
				say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"task","taskId":"t1","status":"working","ttlMs":null}}`, id)
			case "a.b":
				say(`{"jsonrpc":"2.0","id":%s,"result":{"task":{"taskId":"t1","status":"working"}}}`, id)
			default:
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32021,"message":"tasks are required"}}`, id)
			}
		})
	},
	"leaky": func() { script(func(_ string, id json.RawMessage) { leak(id) }) },
	"mute":  func() { _, _ = bufio.NewReader(os.Stdin).ReadString(0) },
}

// names are tool names that these servers list; some are invalid.
const names = `["bash","read ","r\u0435ad","b__c","","a.b","a_b","` + "long" + `"]`

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func answer(id json.RawMessage, text string) {
	say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, id, text)
}

// Leak is the variable whose value the leaky server prints in several encodings.
const Leak = "TOOLD_MCPTEST_LEAK"

func leak(id json.RawMessage) {
	value := os.Getenv(Leak)
	fmt.Fprintln(os.Stderr, "raw", value)
	say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":%q}}`, "raw "+value)
	escaped, _ := json.Marshal(value)
	answer(id, fmt.Sprintf("raw %s json %s base64 %s hex %x", value, escaped, base64.StdEncoding.EncodeToString([]byte(value)), value))
}

func endless() {
	chunk := strings.Repeat("x", 1<<20)
	for range 1 << 10 {
		if _, err := os.Stdout.WriteString(chunk); err != nil {
			return
		}
	}
}

// script answers the first requests of a client and passes calls to call.
func script(call func(name string, id json.RawMessage)) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			return
		}
		switch m.Method {
		case "initialize":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"bad","version":"0"}}}`, m.ID)
		case "tools/list":
			var list []string
			_ = json.Unmarshal([]byte(names), &list)
			var tools []string
			for _, name := range list {
				quoted, _ := json.Marshal(name)
				tools = append(tools, fmt.Sprintf(`{"name":%s,"inputSchema":{"type":"object"}}`, quoted))
			}
			tools = append(tools, `{"name":"deep","inputSchema":{"$ref":"file:///etc/passwd"}}`,
				`{"name":"optional","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`,
				`{"name":"task_alone","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`)
			say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}`, m.ID, strings.Join(tools, ","))
		case "tools/call":
			call(m.Params.Name, m.ID)
		default:
			if len(m.ID) > 0 {
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
			}
		}
	}
}
