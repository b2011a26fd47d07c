package status

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC)

func before(d time.Duration) time.Time { return noon.Add(-d) }

// TestJudgeTask: moving, waiting for a named thing, stopped, and none of these (I12), with the bounds on both sides.
func TestJudgeTask(t *testing.T) {
	sign := func(age, limit time.Duration) Sign { return Sign{What: "fetch in/3", Since: before(age), Limit: limit} }
	wait := func(age time.Duration) Wait {
		return Wait{For: ForBroker, What: "the brokers: refused", Since: before(age)}
	}
	const s = time.Second
	for name, c := range map[string]struct {
		account Account
		failed  bool
		state   State
		health  Health
		live    bool
		still   float64
		code    string
	}{
		"at the end of the input":     {Account{State: Running, Signs: []Sign{sign(s/2, Watchdog)}}, false, Running, Green, true, 0, ""},
		"a slow answer":               {Account{State: Running, Signs: []Sign{sign(20*s, Watchdog)}}, false, Running, Green, true, 20, ""},
		"no answer":                   {Account{State: Running, Signs: []Sign{sign(20*s+1, Watchdog)}}, false, Stuck, Red, false, 20, "stuck"},
		"one of two answers":          {Account{State: Running, Signs: []Sign{sign(0, Watchdog), sign(21*s, Watchdog)}}, false, Stuck, Red, false, 21, "stuck"},
		"a short wait":                {Account{State: Running, Waits: []Wait{wait(s - 1)}}, false, Running, Green, true, 0, ""},
		"a wait":                      {Account{State: Running, Waits: []Wait{wait(30 * s)}}, false, Waiting, Amber, true, 30, "broker"},
		"a long wait":                 {Account{State: Running, Waits: []Wait{wait(30*s + 1)}}, false, Waiting, Red, true, 30, "broker"},
		"a wait, and no answer":       {Account{State: Running, Waits: []Wait{wait(5 * s)}, Signs: []Sign{sign(40*s, Watchdog)}}, false, Stuck, Red, false, 40, "stuck"},
		"recovering":                  {Account{State: Recovering, Signs: []Sign{sign(30*s, Restore)}}, false, Recovering, Amber, true, 30, "recovering"},
		"recovering without progress": {Account{State: Recovering, Signs: []Sign{sign(30*s+1, Restore)}}, false, Stuck, Red, false, 30, "stuck"},
		"recovering, held up":         {Account{State: Recovering, Waits: []Wait{wait(10 * s)}}, false, Waiting, Amber, true, 10, "broker"},
		"stopped":                     {Account{State: Stopped, Since: before(90 * s), Error: "refused", Waits: []Wait{wait(s)}}, false, Stopped, Red, false, 90, "stopped"},
		"half was refused":            {Account{State: Running, Refused: Share{In: 200, Refused: 100}}, false, Running, Green, true, 0, ""},
		"most was refused":            {Account{State: Running, Refused: Share{In: 100, Refused: 51}}, false, Running, Amber, true, 0, "refused"},
		"all of a few was refused":    {Account{State: Running, Refused: Share{In: 99, Refused: 99}}, false, Running, Green, true, 0, ""},
		"checkpoint not written":      {Account{State: Running}, true, Running, Red, true, 0, "checkpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			task := Task{Partition: 3}
			if c.failed {
				task.SaveFailed = &Failure{At: noon, What: "disk full"}
			}
			task.Judge(c.account, noon)
			status := Status{At: noon, Tasks: []Task{task}}
			status.Judge()
			if task.State != c.state || task.Health != c.health || status.Health != c.health || status.Live != c.live || status.Ready != (c.health == Green) {
				t.Errorf("%s, %s, live %v, ready %v; want %s, %s, %v", task.State, task.Health, status.Live, status.Ready, c.state, c.health, c.live)
			}
			if d := task.SinceProgress - c.still; d < 0 || d > 0.001 {
				t.Errorf("%v s since progress, want %v", task.SinceProgress, c.still)
			}
			code := ""
			if len(task.Reasons) > 0 {
				code = task.Reasons[0].Code
				if *task.Reasons[0].Partition != 3 || task.Reasons[0].What == "" {
					t.Errorf("reason %+v", task.Reasons[0])
				}
			}
			if code != c.code {
				t.Errorf("code %q, want %q", code, c.code)
			}
		})
	}
}

// TestJudgeProcess: what is not a task's.
func TestJudgeProcess(t *testing.T) {
	lag := int64(5)
	green := Task{Health: Green, Lag: &lag}
	for name, c := range map[string]struct {
		status Status
		health Health
		live   bool
		code   string
		lag    bool
	}{
		"well":                {Status{Tasks: []Task{green, green}}, Green, true, "", true},
		"nothing assigned":    {Status{}, Amber, true, "unassigned", false},
		"waiting for a topic": {Status{Waiting: &Wait{For: ForInputTopic, Since: before(time.Second)}}, Amber, true, "input_topic", false},
		"for long":            {Status{Waiting: &Wait{For: ForGroup, Since: before(time.Minute)}}, Red, true, "group", false},
		"below the limit":     {Status{Tasks: []Task{green}, Memory: Memory{Used: 899, Max: 1000}}, Green, true, "", true},
		"memory":              {Status{Tasks: []Task{green}, Memory: Memory{Used: 900, Max: 1000}}, Red, true, "memory", true},
		"lag not known":       {Status{Tasks: []Task{green, {Health: Green}}}, Green, true, "", false},
		"the worst first": {Status{Tasks: []Task{{Reasons: []Reason{{Code: "recovering", Health: Amber, Live: true}}},
			{Reasons: []Reason{{Code: "stopped", Health: Red}}}}}, Red, false, "stopped", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.status
			s.At = noon
			s.Judge()
			code := ""
			if len(s.Reasons) > 0 {
				code = s.Reasons[0].Code
			}
			if s.Health != c.health || s.Live != c.live || s.Ready != (c.health == Green) || code != c.code || (s.Lag != nil) != c.lag {
				t.Errorf("%s, live %v, ready %v, reasons %+v, lag %v", s.Health, s.Live, s.Ready, s.Reasons, s.Lag)
			}
			if c.lag && *s.Lag != lag*int64(len(s.Tasks)) {
				t.Errorf("lag %d", *s.Lag)
			}
		})
	}
}

func TestRecoveryInWords(t *testing.T) {
	left := 2.4
	r := &Recovery{Step: "replay", Done: 5, Total: 10, Rate: 1234.5, Left: &left}
	if got, want := r.String(), "recovering, step replay: 5 of 10 offsets, 1234 records/s, about 2 s left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (&Recovery{Step: "fence"}).String(); !strings.HasSuffix(got, "step fence") {
		t.Error(got)
	}
}

// TestRebaseCopies: what is told is told of moments without a monotonic part as it is, and what others hold is left alone. That moments
// with one stay as long ago as they are is held by TestW20NothingIsMeasuredByTheClock, which sets the clock.
func TestRebaseCopies(t *testing.T) {
	want, s := full(5), full(5)
	held := []*time.Time{&s.Tasks[0].LastError.At, s.Tasks[0].Commit.At}
	s.Rebase()
	if !reflect.DeepEqual(want, s) {
		t.Errorf("%+v\nwant %+v", s, want)
	}
	for i, now := range []*time.Time{&s.Tasks[0].LastError.At, s.Tasks[0].Commit.At} {
		if now == held[i] {
			t.Errorf("moment %d is changed where it stands", i)
		}
	}
}
