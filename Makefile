.PHONY: test race long bench fuzz lint ci

test: ## the whole suite; what needs redis-server uses it when it is installed
	go test ./...

race:
	go test -count=1 -race -shuffle=on ./...

long: ## the tests that get better with time, for longer
	REDISPATTERNS_LONG=1 go test -count=1 -timeout=20m ./session ./ratelimit ./ranking ./lock

bench: ## each operation on a redis-server of its own
	go test -run='^$$' -bench=. -benchmem ./session ./ratelimit ./ranking ./lock ./internal/script

fuzz: ## every fuzz target, 30 s each
	@for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			go test -run='^$$' -fuzz="^$$target\$$" -fuzztime=30s $$package || exit 1; \
		done; \
	done

lint:
	test -z "$$(gofmt -l .)"
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

ci: ## all that must hold before a change lands
	.ci/run
