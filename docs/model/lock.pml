/*
 * lock.pml models the protocol of package lock: clients that acquire, wait in the queue, are granted the lock by a
 * release, renew, give up and crash, and one Redis. README.md says what is left out, and why that does no harm.
 *
 * By default everything may be late without bound, and only safety is asked, by the assertions. With -DLIVE what is due
 * happens before the clock goes on, except where a fault strikes, and liveness is asked.
 *
 * -DBUG_RELEASE  release.lua does not compare the owner
 * -DBUG_GRANT    a grant counts whatever its fence
 * -DBUG_CLEANUP  a look that failed is cleaned up after, though the waiter goes on with the same token
 *
 * -DLOCKS=1      each client locks once; without it there is no end
 * -DHOLDERS_ALONE  of a lease, only that there is no other is asserted, and not that Redis has it for as long
 */

#ifdef LIVE
#define N 2                     /* clients */
#define TTL 3                   /* ticks */
#define GRANT 2                 /* at most TTL: serve, queue.go */
#else
#ifndef N
#define N 3
#endif
#define TTL 2
#define GRANT 1
#endif
#define REFRESH 1               /* of LIVE, as the next two: between two looks of a waiter */
#define ALIVE (3 * REFRESH)     /* how long a waiter counts as alive after a look */
#define HOLD_MAX 2              /* after so long a holder releases */

#define TOKENS (N * 2)          /* two of a client may be about at a time; they are numbered from 1, and 0 is none */
#define client(t) (((t) - 1) / 2)

/* ---- Redis ---- */

byte owner, left;               /* KEYS[1]: the token that has the lock, and its PTTL */
byte fence;                     /* KEYS[2] */
byte queue[TOKENS], queued;     /* KEYS[3], by arrival */
#ifdef LIVE
byte alive[TOKENS + 1];         /* KEYS[3], the members with ~ */
#endif

/* ---- clients ---- */

#define IDLE  0
#define PAUSE 1                 /* serve, queue.go: between two looks */
#define DEAF  2                 /* of LIVE: waits in vain for the reply of a look */
#define HOLD  3                 /* has a lease, though it may have lapsed */
#define DEAD  4
#define OVER  5                 /* has had its LOCKS */

byte at[N];
byte token[N];
byte hold[N];                   /* ticks for which it believes to hold the lock */
byte seen[N];                   /* fence that the last look that was answered saw */
byte answered[N];               /* ticks since that look was sent; GRANT is too long ago, or never */
byte inbox[N];                  /* fence of a grant that was published for it and not read; 0 is none */
#ifdef LIVE
byte timer[N];                  /* ticks spent in PAUSE, DEAF or HOLD */
#endif
#ifdef LOCKS
byte locks[N];                  /* how often it has locked */
#define mayLock (locks[c] < LOCKS)
#else
#define mayLock true
#endif

byte top;                       /* the greatest fence of any lease so far */

/* ---- one request more, which comes at any time, or never ---- */

#define NONE    0
#define ACQUIRE 1               /* these three: one that was thought lost, and sent again */
#define WAIT    2
#define RELEASE 3
#define LEAVE   4               /* likewise, of a waiter that gave up */
#define CLEANUP 5               /* cleanup, locker.go: the release after an acquisition that failed */

byte stray, strayFor;           /* and its token */

/* ---- faults ---- */

bool mayResend = 1;
#ifdef LIVE                     /* one of each in a run */
bool mayCrash = 1, mayLoseMessage = 1, mayLose = 1, mayGiveUp = 1;
#define may(fault) fault
#define spend(fault) fault = 0
#else                           /* one crash and one request that comes twice; of the others any number */
#define mayCrash (at[0] != DEAD && at[1] != DEAD && at[N - 1] != DEAD)
#define may(fault) true
#define spend(fault) skip
#endif

/* ---- parts of the scripts ---- */

inline unqueue(t) {             /* ZREM KEYS[3] t ~t */
    d_step {
        i = 0;
        do
        :: i < queued && queue[i] != t -> i++
        :: else -> break
        od;
        if
        :: i < queued ->
            queued--;
            do
            :: i < queued -> queue[i] = queue[i + 1]; i++
            :: else -> break
            od;
            queue[queued] = 0
        :: else
        fi;
#ifdef LIVE
        alive[t] = 0;
#endif
        i = 0
    }
}

inline enqueue(t) {             /* ZADD KEYS[3] NX t, ZADD KEYS[3] ~t */
    d_step {
        i = 0;
        do
        :: i < queued && queue[i] != t -> i++
        :: else -> break
        od;
        if
        :: i == queued -> queue[queued] = t; queued++
        :: else
        fi;
#ifdef LIVE
        alive[t] = ALIVE;
#endif
        i = 0
    }
}

/* PUBLISH of a grant to t. With heard, release.lua is content, else it goes on to the next waiter. */
inline publish(t) {
    heard = 1;
    if
    :: at[client(t)] == DEAD ->
        if :: heard = 0 :: heard = 1 fi                         /* it had listened at this server; at another */
    :: at[client(t)] != DEAD && token[client(t)] == t && (at[client(t)] == PAUSE || at[client(t)] == DEAF) ->
        inbox[client(t)] = fence                                /* one unread before it has lapsed */
    :: at[client(t)] != DEAD && !(token[client(t)] == t && (at[client(t)] == PAUSE || at[client(t)] == DEAF))
                                                                /* for one that waits no more */
    :: at[client(t)] != DEAD && may(mayLoseMessage) ->
        spend(mayLoseMessage);
        if :: heard = 0 :: heard = 1 fi                         /* its connection was cut before; after */
    fi
}

/* ---- the scripts; has is their reply ---- */

inline acquire_lua(t) {
    if
    :: owner == 0 -> owner = t; left = TTL; fence++; has = 1    /* SET NX PX; TIME, SET of the fence */
    :: owner == t -> left = TTL; has = 1                        /* an earlier run took it: PEXPIRE */
    :: else -> has = 0
    fi
}

inline wait_lua(t) {
    if
    :: owner == 0 -> unqueue(t); owner = t; left = TTL; fence++; has = 1
    :: owner == t -> left = TTL; has = 1
    :: else -> enqueue(t); has = 0
    fi
}

inline extend_lua(t) {
    has = (owner == t);
    if
    :: has -> left = TTL                                        /* PEXPIRE GT */
    :: else
    fi
}

inline release_lua(t, leaves) {
    if
    :: leaves -> unqueue(t)                                     /* ARGV[3] */
    :: else
    fi;
    if
#ifdef BUG_RELEASE
    :: owner == 0 -> has = 0
#else
    :: owner != t -> has = 0
#endif
    :: else ->
        owner = 0; left = 0;
        do
        :: heard || queued == 0 -> break
        :: else ->
            head = queue[0];
#ifdef LIVE
            has = (alive[head] > 0);
#else
            if :: has = 1 :: has = 0 fi;                        /* its time of life may be over, as it may be late */
#endif
            unqueue(head);
            if
            :: has ->
                fence++; owner = head; left = GRANT;
                publish(head);
                if :: heard :: else -> owner = 0; left = 0 fi
            :: else
            fi
        od;
        head = 0; heard = 0; has = 1
    fi
}

/* ---- the client ---- */

/* Only the order of fences matters, so they are numbered anew without gaps: that keeps the states finite. */
inline renumber() {
    d_step {
        n = fence;
        do
        :: n == 0 -> break
        :: else ->
            has = (n == fence || n == top); i = 0;
            do
            :: i == N -> break
            :: else -> has = (has || n == seen[i] || n == inbox[i]); i++
            od;
            if
            :: has
            :: else ->
                fence--; i = 0;
                if :: top > n -> top-- :: else fi;
                do
                :: i == N -> break
                :: else ->
                    if :: seen[i] > n -> seen[i]-- :: else fi;
                    if :: inbox[i] > n -> inbox[i]-- :: else fi;
                    i++
                od
            fi;
            n--
        od;
        i = 0; has = 0
    }
}

inline time(t) {
#ifdef LIVE
    timer[c] = t
#else
    skip
#endif
}

#ifdef LIVE
#define since(ticks) (timer[c] >= (ticks))
#else
#define since(ticks) true
#endif

#define inQueue(t) (queue[0] == (t) || queue[1] == (t) || queue[2] == (t) || queue[3] == (t) || queue[TOKENS-2] == (t) || queue[TOKENS-1] == (t))
#define about(t) (owner == (t) || strayFor == (t) || inQueue(t))
#define one (c * 2 + 1)
#define two (c * 2 + 2)

inline fresh() { token[c] = (about(one) -> two : one) }        /* uuid.NewString: one that is nowhere */

inline become(state) {          /* and what was known before, is not any more */
    at[c] = state; hold[c] = 0; seen[c] = 0; answered[c] = 0; inbox[c] = 0;
    if :: state == IDLE || state == DEAD -> token[c] = 0 :: else fi;
    time(0)
}

inline join() { fresh(); become(PAUSE); answered[c] = GRANT; time(REFRESH) }

inline cleanup() { stray = CLEANUP; strayFor = token[c] }

inline again(what) { mayResend = 0; stray = what; strayFor = token[c] }

/* How long before it ran a script was sent. Any time is possible where all may be late. */
inline ago(most) {
    n = 0;
#ifndef LIVE
    do
    :: n < most -> n++
    :: break
    od
#endif
}

inline lease(f, length) {       /* begin and extended, lease.go */
    d_step {
        i = 0;
        do
        :: i == N -> break
        :: else -> assert(i == c || hold[i] == 0); i++          /* never two holders */
        od;
        i = 0;
#ifndef HOLDERS_ALONE
        assert(owner == token[c] && left >= (length))           /* as Redis sees it too */
#endif
    }
    hold[c] = (hold[c] > (length) -> hold[c] : (length))
}

inline begin(f, length) {
    assert(f > top);                                            /* fences strictly grow */
    top = f;
    become(HOLD);
    lease(f, length);
    n = 0
}

proctype Client(byte c) {
    byte i, n, head;
    bool has, heard;

    do
    /* Lock and TryLock, mutex.go: acquire.lua. */
    :: atomic { at[c] == IDLE && mayLock && !about(one) && !about(two) ->
#ifdef LOCKS
        locks[c]++;
#endif
        fresh();
        acquire_lua(token[c]);
        if
        :: has -> ago(TTL - 1); begin(fence, TTL - n)
        :: has && stray == NONE && may(mayLose) -> spend(mayLose); cleanup(); become(IDLE)
                                                                /* no reply, or too late, or the context has ended */
        :: !has && mayResend && stray == NONE -> again(ACQUIRE); join()
        :: !has -> join()
#ifndef LIVE
        :: !has -> become(IDLE)
#endif
        fi;
        has = 0; renumber() }

    /* Lock, where others of this process wait already. */
    :: atomic { at[c] == IDLE && mayLock && (!about(one) || !about(two)) ->
#ifdef LOCKS
        locks[c]++;
#endif
        join() }

    /* serve and look, queue.go: wait.lua, by the timer. */
    :: atomic { at[c] == PAUSE && since(REFRESH) ->
        wait_lua(token[c]);
        if
        :: mayResend && stray == NONE -> again(WAIT)
        :: true
        fi;
        if
        :: has -> ago(TTL - 1); begin(fence, TTL - n)
        :: has && may(mayGiveUp) -> spend(mayGiveUp); become(HOLD)          /* it has left: run releases it */
        :: !has -> ago(GRANT); seen[c] = fence; answered[c] = n; n = 0; time(0)
        :: may(mayLose) -> spend(mayLose);                      /* no reply, or too late: it goes on */
#ifdef BUG_CLEANUP
            if :: stray == NONE -> cleanup() :: else fi;
#endif
#ifdef LIVE
            at[c] = DEAF; time(0)
        :: false
#endif
        :: may(mayLose) && stray == NONE -> spend(mayLose); cleanup(); become(IDLE)    /* or for too long: an error */
        fi;
        has = 0; renumber() }

    /* grant, queue.go. */
    :: atomic { at[c] == PAUSE && inbox[c] != 0 ->
        if
#ifdef BUG_GRANT
        :: answered[c] < GRANT ->
#else
        :: inbox[c] > seen[c] && answered[c] < GRANT ->
#endif
            n = answered[c]; head = inbox[c];
            begin(head, GRANT - n);
            head = 0
        :: else -> inbox[c] = 0
        fi;
        renumber() }

    /* forget, queue.go: release.lua with the waiter as ARGV[3]. */
    :: atomic { at[c] == PAUSE && may(mayGiveUp) ->
        spend(mayGiveUp);
        release_lua(token[c], 1);
        if
        :: mayResend && stray == NONE -> again(LEAVE)
        :: true
        fi;
        become(IDLE); has = 0; renumber() }

    /* renew, renew.go, and Extend: extend.lua. Without a reply only Redis' side of it happened. */
    :: atomic { at[c] == HOLD && hold[c] > 0 && (hold[c] < TTL || left < TTL) ->
        extend_lua(token[c]);
        if
        :: has -> ago(TTL - 1); lease(top, TTL - n); n = 0
        :: has && may(mayLose) -> spend(mayLose)
        :: !has -> become(IDLE)
        fi;
        has = 0 }

    /* Release, lease.go: release.lua; of a lease that has lapsed as well, or not. */
    :: atomic { at[c] == HOLD && since(1) ->
        if
        :: release_lua(token[c], 0);
            if
            :: mayResend && stray == NONE -> again(RELEASE)
            :: true
            fi;
            become(IDLE)
        :: may(mayLose) -> spend(mayLose);                      /* it got lost: it comes late, or never */
            if
            :: mayResend && stray == NONE -> again(RELEASE)
            :: true
            fi;
            become(IDLE)
        :: hold[c] == 0 -> become(IDLE)
        fi;
        has = 0; renumber() }

#ifdef LIVE
    :: atomic { at[c] == DEAF && timer[c] >= TTL -> at[c] = PAUSE; time(REFRESH) }
#endif

    /* What is on its way besides, arrives; a cleanup is repeated while there is nothing to release. */
    :: atomic { stray != NONE && client(strayFor) == c ->
        if
        :: stray == ACQUIRE -> acquire_lua(strayFor)
        :: stray == WAIT -> wait_lua(strayFor)
        :: stray == RELEASE || stray == CLEANUP -> release_lua(strayFor, 0)
        :: stray == LEAVE -> release_lua(strayFor, 1)
        fi;
        if
        :: stray = NONE; strayFor = 0
#ifndef LIVE
        :: stray == CLEANUP && !has
#endif
        fi;
        has = 0; renumber() }

    :: atomic { mayCrash && (at[c] == PAUSE || at[c] == DEAF || at[c] == HOLD) ->
        spend(mayCrash);
        if :: stray == CLEANUP && client(strayFor) == c -> stray = NONE; strayFor = 0 :: else fi;
        become(DEAD); renumber() }
    od
}

/* ---- time ---- */

#ifdef LIVE
/* What is due, is done before the clock goes on. */
#define due(c) (at[c] == PAUSE && (inbox[c] != 0 || timer[c] >= REFRESH) || at[c] == HOLD && timer[c] >= HOLD_MAX || \
    at[c] == DEAF && timer[c] >= TTL)
#define mayTick (!due(0) && !due(1) && stray != CLEANUP)
#else
#define mayTick true
#endif

proctype Clock() {
    byte i;
    do
    :: d_step { mayTick ->
        if
        :: left > 0 -> left--; if :: left == 0 -> owner = 0 :: else fi
        :: else
        fi;
        i = 0;
        do
        :: i == N -> break
        :: else ->
            if :: hold[i] > 0 -> hold[i]-- :: else fi;
            if :: (at[i] == PAUSE || at[i] == DEAF) && answered[i] < GRANT -> answered[i]++ :: else fi;
#ifdef LIVE
            if :: timer[i] < TTL && at[i] != IDLE && at[i] != DEAD -> timer[i]++ :: else fi;
#endif
            i++
        od;
#ifdef LIVE
        i = 1;
        do
        :: i > TOKENS -> break
        :: else -> if :: alive[i] > 0 -> alive[i]-- :: else fi; i++
        od;
#endif
        i = 0 }
    od
}

init {
    atomic {
        byte c = 0;
        do
        :: c == N -> break
        :: else -> run Client(c); c++
        od;
        c = 0;
        run Clock()
    }
}

#ifdef LIVE
ltl served { [] <> !(at[0] == PAUSE || at[0] == DEAF) }         /* nobody waits forever */
#endif
