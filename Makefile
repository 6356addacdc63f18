.PHONY: test race long bench bench-full bench-growth bench-packages fuzz soak lint screenshot demos ci

test: ## the whole suite; what needs redis-server uses it when it is installed
	go test ./...

race:
	go test -count=1 -race -shuffle=on ./...

long: ## the tests that get better with time, for longer
	REDISPATTERNS_LONG=1 go test -count=1 -timeout=20m ./session ./ratelimit ./ranking ./lock ./internal/faults

bench: ## this library beside its peers and beside go-redis by hand, under three minutes
	cd internal/peerbench && go run . -short

bench-full: ## the same, at length
	cd internal/peerbench && go run .

bench-growth: ## what an operation costs as the work grows; draws docs/growth-*.svg
	cd internal/peerbench && go run ./growth -plots $(CURDIR)/docs

bench-packages: ## each operation on a redis-server of its own
	go test -run='^$$' -bench=. -benchmem ./session ./ratelimit ./ranking ./lock ./internal/script

fuzz: ## every fuzz target, 30 s each
	.ci/fuzz 30s

soak: ## all four patterns under faults, from several processes; needs redis-server
	go run ./internal/soak -for 10m

lint:
	test -z "$$(gofmt -l .)"
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

screenshot: ## the picture that the README shows; needs chromium
	cd internal/e2e && REDISPATTERNS_SCREENSHOT=$(CURDIR)/docs/live.png go test -count=1 -run='^TestScreenshot$$' .

demos: ## the examples' demo.sh, in containers; needs Docker with Compose, and pulls no image
	.ci/demos

ci: ## all that must hold before a change lands
	.ci/run
