package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASessionOutlivesItsServer(t *testing.T) {
	p := open(t, serve(t), 1280, 900, "light")
	p.click(`[data-server=A] button`)
	p.eventually(`text("#answer").includes("I do not know you")`)

	p.click(`#login button[value=A]`)
	p.eventually(`text("#answer") === "Server A says: you are tanaka, visit 1." && field("username") === "tanaka"`)
	require.Regexp(t, `^HGETALL session:\w+$`, value[string](p, `text("#session-key")`))
	require.Regexp(t, `^TTL 1[78]\d\d$`, value[string](p, `text("#session-ttl")`))
	p.eventually(`field("last_server") === "A"`)

	p.click(`[data-server=A] button.quiet`)
	p.eventually(`$("[data-server=A]").classList.contains("down")`)
	p.click(`[data-server=A] button`)
	p.eventually(`text("#answer") === "Server A does not answer."`)
	p.picture("server-a-is-down.png")

	p.click(`[data-server=B] button`)
	p.eventually(`text("#answer") === "Server B says: you are tanaka, visit 2." && field("visits") === "2" && field("last_server") === "B"`)

	p.click(`[data-server=A] button.quiet`)
	p.eventually(`!$("[data-server=A]").classList.contains("down")`)
	p.click(`[data-server=A] button`)
	p.eventually(`text("#answer") === "Server A says: you are tanaka, visit 3."`)

	p.click(`#logout`)
	p.eventually(`text("#answer").includes("logged out") && text("#session-key") === "no session"`)
	p.click(`[data-server=B] button`)
	p.eventually(`text("#answer").includes("I do not know you")`)
}

func TestWhatAVisitorTypesIsText(t *testing.T) {
	p := open(t, serve(t), 1280, 900, "light")
	p.fill(`#username`, `<b>x</b>`)
	p.click(`#login button[value=A]`)
	p.eventually(`text("#answer").includes("1 to 16 letters or digits")`)
	p.fill(`#player`, `<b>x</b>`)
	p.click(`#scoring button[value="100"]`)
	p.eventually(`!$("#toast").hidden && text("#toast").includes("1 to 16 letters or digits")`)
	require.Zero(t, value[int](p, `document.querySelectorAll("main b b, #answer b, #toast b").length`))
}

func TestOnlyAFixedWindowLetsABurstThroughAtItsEdge(t *testing.T) {
	p := open(t, serve(t), 1280, 900, "light")
	p.click(`#hit`)
	p.eventually(`text("[data-way=bucket] .left") === "9 of 10 left"`)
	p.click(`#burst`)
	p.eventually(`text("[data-way=sliding] .left").startsWith("denied")`)

	// A machine that is busy just then can be late for the edge.
	for range 6 {
		p.click(`#edge`)
		p.eventually(`$("#edge").disabled`)
		p.eventually(`!$("#edge").disabled`)
		if value[bool](p, `text("[data-way=fixed] .most") === "most in 10 s: 20"`) {
			break
		}
	}
	p.picture("edge.png")
	require.Equal(t, "most in 10 s: 20", value[string](p, `text("[data-way=fixed] .most")`))
	require.Equal(t, "most in 10 s: 10", value[string](p, `text("[data-way=sliding] .most")`))
	require.True(t, value[bool](p, `$("[data-way=fixed] .most").classList.contains("over")`))

	p.click(`#reset`)
	p.eventually(`text("[data-way=fixed] .left") === "10 of 10 left"`)
}

func TestScoresAreRankedAtOnce(t *testing.T) {
	p := open(t, serve(t), 1280, 900, "light")
	p.click(`#arrive`)
	p.eventually(`text("#arrive") === "Let scores arrive"`)
	p.fill(`#player`, "zoe")
	p.click(`#scoring button[value="100"]`)
	p.eventually(`text("#around-title") === "Around zoe, of 17" && row("#around", 5)[1] === "zoe"`)
	p.fill(`#player`, "daiki")
	p.click(`#ties`) // leaves the field
	p.eventually(`text("#around-title") === "Around daiki, of 17"`)
	for range 8 {
		before := value[string](p, `text("#last")`)
		p.click(`#scoring button[value="100"]`)
		p.eventually(fmt.Sprintf(`text("#last").startsWith("daiki +100") && text("#last") !== %q`, before))
	}
	p.eventually(`row("#top", 1).join() === "1,daiki," + row("#top", 1)[2] && $("#top li").classList.contains("me")`)
	require.Equal(t, []string{"1", "daiki"}, value[[]string](p, `row("#around", 1).slice(0, 2)`))
	p.picture("ranking.png")

	p.click(`#arrive`)
	last := value[string](p, `text("#last")`)
	p.eventually(fmt.Sprintf(`text("#last") !== %q`, last))
}

func TestTiesRankAsChosen(t *testing.T) {
	p := open(t, serve(t), 1280, 900, "light")
	p.click(`#arrive`)
	p.eventually(`text("#arrive") === "Let scores arrive"`)
	// Two players of one score each, however the scores came in.
	p.do(setSelect(`#ties`, "dense"))
	p.eventually(`(() => { const rows = [...$("#top").children].map((_, i) => row("#top", i + 1));
		return rows.some((r, i) => i && r[2] === rows[i - 1][2]) && rows.every((r, i) => !i || (r[0] === rows[i - 1][0]) === (r[2] === rows[i - 1][2])) })()`)
	last := value[string](p, `text("#last")`)
	p.click(`#scoring button[value="100"]`)
	p.eventually(fmt.Sprintf(`text("#last") !== %q`, last))
	p.do(setSelect(`#ties`, "ordinal"))
	p.eventually(`[...$("#top").children].every((_, i) => row("#top", i + 1)[0] === String(i + 1))`)
}

func TestALateWriteIsRefused(t *testing.T) {
	p := open(t, serve(t), 1280, 900, "light")
	p.holderIsPausedTooLong()
	p.picture("refused.png")
}

// holderIsPausedTooLong pauses whoever holds the lock until another has it, and sees its late write refused.
func (p *page) holderIsPausedTooLong() {
	p.t.Helper()
	// The holder may let go by itself before the click reaches it: then another is chosen.
	var paused string
	for paused == "" {
		p.eventually(`lanes("holding").length === 1`)
		n := value[string](p, `lanes("holding")[0] ?? ""`)
		if n == "" {
			continue
		}
		lane := fmt.Sprintf(`[data-worker="%s"]`, n)
		p.click(lane + ` button`)
		p.eventually(fmt.Sprintf(`lanes("paused").includes(%q)`, n))
		if value[bool](p, fmt.Sprintf(`text('%s p').includes("…")`, lane)) {
			paused = lane
		} else {
			p.click(lane + ` button`)
		}
	}
	p.eventually(`lanes("holding").length === 1 && text("#order-by") === "worker " + lanes("holding")[0]`)
	p.click(paused + ` button`)
	p.eventually(`text("#order-refused") !== "0" && text("#stale").startsWith("Refused: worker")`)
}

func TestADeadHoldersLeaseRunsOut(t *testing.T) {
	p := open(t, serve(t), 1280, 900, "light")
	p.eventually(`lanes("holding").length === 1`)
	n := value[string](p, `lanes("holding")[0]`)
	lane := fmt.Sprintf(`[data-worker="%s"]`, n)
	p.click(lane + ` button:last-child`)
	p.eventually(fmt.Sprintf(`lanes("dead").includes(%q) && text('%s button:last-child') === "Start"`, n, lane))
	p.eventually(fmt.Sprintf(`lanes("holding").length === 1 && lanes("holding")[0] !== %q`, n))
	p.click(lane + ` button:last-child`)
	p.eventually(fmt.Sprintf(`!lanes("dead").includes(%q)`, n))
}
