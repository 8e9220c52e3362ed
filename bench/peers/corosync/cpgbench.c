/*
 * A member of a Corosync process group (libcpg), for the benchmark.
 *
 *     cpgbench views|flood|latency GROUP SIZE RATE AHEAD
 *
 * It speaks as the workers of Phalanx do (src/phalanx/benchmark/worker.py), a JSON object a line:
 * each configuration as {"view": [names], "at": nanoseconds}, the result as {"result": {...}}. It
 * reads one line, "FROM UNTIL" (nanoseconds of CLOCK_MONOTONIC, which all processes of a host
 * share): it sends from then on and counts what is delivered between the two. At the end of its
 * input it leaves.
 *
 * flood: sends as fast as flow control permits, with at most AHEAD bytes of its own on their way.
 * Flow control alone is not enough: a client that sends until it is refused leaves requests in the
 * ring that the daemon may not take yet; the daemon then spins in epoll_wait, and on a machine with
 * few cores the daemons take them from each other: a quarter to a half of the rate is left.
 * latency: RATE messages a second at uneven distances, and notes how long its own take to come
 * back; with RATE 0 it only delivers. views: sends nothing.
 *
 * It never spins: when nothing can be sent and nothing waits, it sleeps in poll. A client that does
 * spin takes a core from the daemons and shows latencies that are not theirs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <corosync/cpg.h>

#define SECOND 1000000000LL
#define BURST 64               /* messages sent, and taken, at a time */
#define BLOCKED_NS 1000000LL   /* nothing tells when flow control opens again: ask after this */
#define CONNECT_NS (20 * SECOND)
#define SAMPLES_MAX (1 << 20)

enum mode { VIEWS, FLOOD, LATENCY };

static cpg_handle_t handle;
static unsigned int own_node;
static uint32_t own_pid;
static enum mode mode;
static char *body;
static size_t size;
static int64_t from, until; /* 0 until we are told */
static uint64_t messages, bytes, sent, own_delivered;
static uint64_t ahead_max; /* own messages that may be on their way */
static int64_t *samples;
static size_t sampled;

static int64_t now(void)
{
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * SECOND + at.tv_nsec;
}

static void die(const char *what, cs_error_t error)
{
	fprintf(stderr, "cpgbench: %s: %s\n", what, cs_strerror(error));
	exit(1);
}

static void delivered(cpg_handle_t h, const struct cpg_name *group, uint32_t node, uint32_t pid,
		      void *message, size_t length)
{
	int64_t stamp, at;

	(void)h, (void)group;
	messages++;
	bytes += length;
	if (node != own_node || pid != own_pid)
		return;
	own_delivered++;
	if (mode != LATENCY)
		return;
	at = now();
	memcpy(&stamp, message, sizeof stamp);
	if (stamp >= from && stamp < until && sampled < SAMPLES_MAX)
		samples[sampled++] = at - stamp;
}

static void configured(cpg_handle_t h, const struct cpg_name *group,
		       const struct cpg_address *members, size_t n,
		       const struct cpg_address *left, size_t left_n,
		       const struct cpg_address *joined, size_t joined_n)
{
	int64_t at = now();

	(void)h, (void)group, (void)left, (void)left_n, (void)joined, (void)joined_n;
	printf("{\"view\": [");
	for (size_t i = 0; i < n; i++) /* nodes are numbered from 1, members from 0 */
		printf("%s\"m%u\"", i ? ", " : "", members[i].nodeid - 1);
	printf("], \"at\": %lld}\n", (long long)at);
	fflush(stdout);
}

static void join(const char *name)
{
	cpg_callbacks_t callbacks = { delivered, configured };
	struct cpg_name group = { .length = strlen(name) };
	int64_t give_up = now() + CONNECT_NS;
	cs_error_t error;

	memcpy(group.value, name, group.length);
	/* The daemon may still be starting. */
	while ((error = cpg_initialize(&handle, &callbacks)) != CS_OK) {
		if (now() > give_up)
			die("cpg_initialize", error);
		poll(NULL, 0, 50);
	}
	while ((error = cpg_join(handle, &group)) != CS_OK) {
		if (error != CS_ERR_TRY_AGAIN || now() > give_up)
			die("cpg_join", error);
		poll(NULL, 0, 10);
	}
	if ((error = cpg_local_get(handle, &own_node)) != CS_OK)
		die("cpg_local_get", error);
}

/* Whether flow control let one message pass. */
static int send_one(void)
{
	struct iovec part = { body, size };
	cs_error_t error = cpg_mcast_joined(handle, CPG_TYPE_AGREED, &part, 1);

	if (error == CS_ERR_TRY_AGAIN)
		return 0;
	if (error != CS_OK)
		die("cpg_mcast_joined", error);
	sent++;
	return 1;
}

/* Not CS_DISPATCH_ALL: while others flood, it finds ever more and may not come back for seconds. */
static void dispatch(void)
{
	for (int i = 0; i < BURST; i++) {
		cs_error_t error = cpg_dispatch(handle, CS_DISPATCH_ONE_NONBLOCKING);

		if (error == CS_ERR_TRY_AGAIN)
			return;
		if (error != CS_OK)
			die("cpg_dispatch", error);
	}
}

/* "FROM UNTIL", or the end of the input: then this member leaves. */
static void told(void)
{
	static char line[128];
	static size_t length;
	long long a, b;
	ssize_t got = read(0, line + length, sizeof line - 1 - length);

	if (got == 0 || (got < 0 && errno != EINTR)) {
		cpg_finalize(handle);
		exit(0);
	}
	length += got > 0 ? got : 0;
	line[length] = 0;
	if (strchr(line, '\n') && sscanf(line, "%lld %lld", &a, &b) == 2) {
		from = a;
		until = b;
		length = 0;
	}
}

static void tell(int64_t first, int64_t last, uint64_t m, uint64_t b)
{
	printf("{\"result\": {\"messages\": %llu, \"bytes\": %llu, \"sent\": %llu, \"ns\": %lld, "
	       "\"latencies_ns\": [",
	       (unsigned long long)m, (unsigned long long)b, (unsigned long long)sent,
	       (long long)(last - first));
	for (size_t i = 0; i < sampled; i++)
		printf("%s%lld", i ? ", " : "", (long long)samples[i]);
	printf("]}}\n");
	fflush(stdout);
}

/* When the next message is due: half to one and a half times the mean distance, so that the
 * senders fall in step neither with each other nor with the protocol's own timers. */
static int64_t next_after(int64_t last, int64_t every)
{
	return last + every / 2 + (int64_t)(drand48() * every);
}

static void run(int64_t every)
{
	struct pollfd waiting[2] = { { .fd = 0, .events = POLLIN }, { .events = POLLIN } };
	int64_t due = 0, first = 0;
	uint64_t messages_before = 0, bytes_before = 0;
	int over = 0, pending = 0;
	cs_error_t error;

	if ((error = cpg_fd_get(handle, &waiting[1].fd)) != CS_OK)
		die("cpg_fd_get", error);
	for (;;) {
		int64_t at = now(), wait = SECOND;
		struct timespec timeout;

		if (from && !first && at >= from) {
			first = at;
			messages_before = messages;
			bytes_before = bytes;
		}
		if (first && !over && at >= until) {
			over = 1;
			tell(first, at, messages - messages_before, bytes - bytes_before);
		}
		if (from && !over && mode == FLOOD) {
			int i = 0;
			while (i < BURST && sent - own_delivered < ahead_max && send_one())
				i++;
			wait = i < BURST ? BLOCKED_NS : 0;
		} else if (from && !over && mode == LATENCY && every) {
			if (!due)
				due = next_after(at, every);
			if (!pending && at >= due) {
				pending = 1; /* time runs from here, also while it may not be sent */
				memcpy(body, &at, sizeof at);
			}
			if (pending && send_one()) {
				pending = 0;
				due = next_after(due, every);
			}
			at = now();
			wait = pending ? BLOCKED_NS : due > at ? due - at : 0;
		}
		if (from && !over) { /* be there when the window begins and ends */
			int64_t edge = (first ? until : from) - now();
			wait = edge < 0 ? 0 : edge < wait ? edge : wait;
		}
		timeout.tv_sec = wait / SECOND;
		timeout.tv_nsec = wait % SECOND;
		if (ppoll(waiting, 2, &timeout, NULL) < 0 && errno != EINTR)
			die("poll", CS_ERR_LIBRARY);
		if (waiting[0].revents)
			told();
		if (waiting[1].revents)
			dispatch();
	}
}

int main(int argc, char **argv)
{
	double rate;

	if (argc != 6) {
		fprintf(stderr, "usage: cpgbench views|flood|latency GROUP SIZE RATE AHEAD\n");
		return 2;
	}
	mode = !strcmp(argv[1], "flood") ? FLOOD : !strcmp(argv[1], "latency") ? LATENCY : VIEWS;
	size = strtoul(argv[3], NULL, 10);
	rate = strtod(argv[4], NULL);
	if (strlen(argv[2]) >= CPG_MAX_NAME_LENGTH || size < sizeof(int64_t)) {
		fprintf(stderr, "cpgbench: GROUP is too long, or SIZE below 8\n");
		return 2;
	}
	body = calloc(1, size);
	samples = calloc(SAMPLES_MAX, sizeof *samples);
	if (!body || !samples) {
		fprintf(stderr, "cpgbench: no memory\n");
		return 1;
	}
	own_pid = getpid();
	ahead_max = strtoull(argv[5], NULL, 10) / size;
	if (!ahead_max)
		ahead_max = 1;
	srand48(own_pid);
	join(argv[2]);
	run(rate > 0 ? (int64_t)(SECOND / rate) : 0);
	return 0;
}
