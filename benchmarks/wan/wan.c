/* A wide-area network between two network namespaces of Linux: the TCP of both sides is the kernel's own.
 *
 *     cc -O2 -o wan wan.c && ./wan FILE CLIENT SERVER      (root; the two namespaces exist; prints "ready")
 *
 * Each namespace gets a TUN device. This program reads the packets of both, and decides what becomes of each:
 * lost, dropped at the queue of the shared link or of its path, or written to the other side when it is due.
 * The client is 10.77.0.1 and fd77::1, the server 10.77.0.2 and fd77::2.
 *
 * A line of FILE is one of these; other lines are for run.py:
 *
 *     link MBIT QUEUE_KIB                                          the shared link, each way
 *     path SHARE DELAY_MS JITTER_MS LOSS_PERCENT KBIT QUEUE_KIB    a path, one way; 0 kbit: no limit of its own
 *     loss FROM_S UNTIL_S PATH PERCENT                             for some time; path -1 is all, 100 an outage
 *     rate FROM_S UNTIL_S MBIT                                     another rate of the shared link
 *     lose-ipv6                                                    every packet of IPv6
 *     seed N
 *
 * A router spreads flows over equal paths by a hash (ECMP). Here the n-th new flow takes the path at the n-th
 * place of a golden-ratio sequence, so that each run has the same share of flows on each path. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PATHS = 32, MOST_EVENTS = 256, FLOWS = 1 << 16, AT_ONCE = 64, MOST_BYTES = 65536 };
enum { CLIENT, SERVER };

typedef struct {
    double share, delay_s, jitter_s, loss, bytes_per_s, queue_bytes;
    double busy_until_s[2], last_out_s[2];
    long packets, lost, dropped;
} Path;

typedef struct {
    double from_s, until_s, loss;
    int path;
} Loss;

typedef struct {
    double from_s, until_s, bytes_per_s;
} Rate;

typedef struct {
    double due_s;
    uint64_t number;
    int from, length;
    unsigned char *bytes;
} Packet;

static Path paths[MOST_PATHS];
static Loss losses[MOST_EVENTS];
static Rate rates[MOST_EVENTS];
static int path_count, loss_count, rate_count, loses_ipv6;
static double link_bytes_per_s, link_queue_bytes, link_busy_until_s[2], begun_s;
static uint64_t seed = 1;
static volatile sig_atomic_t is_ended;

static void end(int signal_number) {
    (void)signal_number;
    is_ended = 1;
}

static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

/* The packets under way: a heap, the one that is due first on top. */

static Packet *heap;
static int heap_count, heap_size;

static int is_before(const Packet *a, const Packet *b) {
    return a->due_s < b->due_s || (a->due_s == b->due_s && a->number < b->number);
}

static void swap(int a, int b) {
    Packet kept = heap[a];
    heap[a] = heap[b];
    heap[b] = kept;
}

static void push(Packet packet) {
    if (heap_count == heap_size) {
        heap_size = heap_size ? 2 * heap_size : 1024;
        heap = realloc(heap, heap_size * sizeof *heap);
        if (heap == NULL) abort();
    }
    int at = heap_count++;
    heap[at] = packet;
    for (int parent; at && is_before(&heap[at], &heap[parent = (at - 1) / 2]); at = parent) swap(at, parent);
}

static Packet pop(void) {
    Packet first = heap[0];
    heap[0] = heap[--heap_count];
    for (int at = 0, child; (child = 2 * at + 1) < heap_count; at = child) {
        if (child + 1 < heap_count && is_before(&heap[child + 1], &heap[child])) child++;
        if (!is_before(&heap[child], &heap[at])) break;
        swap(at, child);
    }
    return first;
}

/* Random numbers and hashes: xorshift64 and the finisher of MurmurHash3. */

static uint64_t state = 88172645463325252ULL;

static double draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) / 9007199254740992.0;
}

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

/* A number for the flow of a packet, the same in both directions; 0: it is too short to have one. */
static uint64_t find_flow(const unsigned char *bytes, int length, int from) {
    int is_v6 = bytes[0] >> 4 == 6;
    int address = is_v6 ? 16 : 4, first = is_v6 ? 8 : 12, ports = is_v6 ? 40 : 4 * (bytes[0] & 15);
    if (length < ports + 4) return 0;
    uint64_t sides[2] = {0, 0};
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < address; i++) sides[side] = mix(sides[side] + bytes[first + side * address + i]);
        sides[side] = mix(sides[side] + (bytes[ports + 2 * side] << 8 | bytes[ports + 2 * side + 1]));
    }
    uint64_t client = sides[from == CLIENT ? 0 : 1], server = sides[from == CLIENT ? 1 : 0];
    return mix(client ^ mix(server)) | 1;
}

static int choose_path(uint64_t flow) {
    static uint64_t flows[FLOWS], flow_count;
    static signed char chosen[FLOWS];
    uint64_t at = flow % FLOWS;
    for (int tries = 0; tries < FLOWS && flows[at]; tries++, at = (at + 1) % FLOWS)
        if (flows[at] == flow) return chosen[at];
    double place = flow_count++ * 0.6180339887498949 + seed * 0.38196601125, total = 0, up_to = 0;
    place -= (uint64_t)place;
    for (int i = 0; i < path_count; i++) total += paths[i].share;
    int path = 0;
    while (path < path_count - 1 && place >= (up_to += paths[path].share / total)) path++;
    flows[at] = flow;
    chosen[at] = path;
    return path;
}

/* When a packet of so many bytes has left a queue that sends at a rate; below 0: the queue is full. */
static double leave(double at_s, double *busy_until_s, double bytes_per_s, double queue_bytes, int length) {
    double begin_s = *busy_until_s > at_s ? *busy_until_s : at_s;
    if ((begin_s - at_s) * bytes_per_s > queue_bytes) return -1;
    return *busy_until_s = begin_s + length / bytes_per_s;
}

static double loss_of(int path, double elapsed_s) {
    double loss = paths[path].loss;
    for (int i = 0; i < loss_count; i++)
        if ((losses[i].path == path || losses[i].path == -1) && elapsed_s >= losses[i].from_s &&
            elapsed_s < losses[i].until_s)
            loss = losses[i].loss;
    return loss;
}

static double link_rate(double elapsed_s) {
    double bytes_per_s = link_bytes_per_s;
    for (int i = 0; i < rate_count; i++)
        if (elapsed_s >= rates[i].from_s && elapsed_s < rates[i].until_s) bytes_per_s = rates[i].bytes_per_s;
    return bytes_per_s;
}

static void take(const unsigned char *bytes, int length, int from, double at_s) {
    static uint64_t count;
    int version = bytes[0] >> 4;
    if ((version != 4 && version != 6) || (version == 6 && loses_ipv6)) return;
    int number = choose_path(find_flow(bytes, length, from));
    Path *path = &paths[number];
    path->packets++;
    if (draw() < loss_of(number, at_s - begun_s)) {
        path->lost++;
        return;
    }
    double out_s = at_s, bytes_per_s = link_rate(at_s - begun_s);
    if (bytes_per_s > 0) out_s = leave(out_s, &link_busy_until_s[from], bytes_per_s, link_queue_bytes, length);
    if (out_s >= 0 && path->bytes_per_s > 0)
        out_s = leave(out_s, &path->busy_until_s[from], path->bytes_per_s, path->queue_bytes, length);
    if (out_s < 0) {
        path->dropped++;
        return;
    }
    out_s += path->delay_s + draw() * path->jitter_s;
    if (out_s < path->last_out_s[from]) out_s = path->last_out_s[from]; /* packets of a path keep their order */
    path->last_out_s[from] = out_s;
    unsigned char *kept = malloc(length);
    if (kept == NULL) abort();
    memcpy(kept, bytes, length);
    push((Packet){out_s, count++, from, length, kept});
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* A TUN device in a network namespace; its packets are read and written here. */
static int open_device(const char *space, int own, int other) {
    char name[64], command[512];
    snprintf(name, sizeof name, "/var/run/netns/%s", space);
    int home = open("/proc/self/ns/net", O_RDONLY), there = open(name, O_RDONLY);
    if (home < 0 || there < 0 || setns(there, CLONE_NEWNET)) fail(name);
    close(there);
    int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    struct ifreq request = {.ifr_name = "wan0"};
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    if (device < 0 || ioctl(device, TUNSETIFF, &request)) fail("/dev/net/tun");
    snprintf(command, sizeof command,
             "ip link set lo up; ip link set wan0 mtu 1500 txqueuelen 5000 up && "
             "ip addr add 10.77.0.%d/24 dev wan0 && ip -6 addr add fd77::%d peer fd77::%d dev wan0 nodad",
             own, own, other);
    if (system(command)) fail("ip");
    if (setns(home, CLONE_NEWNET)) fail("setns");
    close(home);
    return device;
}

static void read_network(const char *name) {
    char line[512];
    FILE *file = fopen(name, "r");
    if (file == NULL) fail(name);
    while (fgets(line, sizeof line, file)) {
        double a, b, c, d, e, f;
        if (sscanf(line, "link %lf %lf", &a, &b) == 2) {
            link_bytes_per_s = a * 125000, link_queue_bytes = b * 1024;
        } else if (sscanf(line, "path %lf %lf %lf %lf %lf %lf", &a, &b, &c, &d, &e, &f) == 6) {
            if (path_count == MOST_PATHS) fail("too many paths");
            paths[path_count++] = (Path){a, b / 1000, c / 1000, d / 100, e * 125, f * 1024, {0}, {0}, 0, 0, 0};
        } else if (sscanf(line, "loss %lf %lf %lf %lf", &a, &b, &c, &d) == 4 && loss_count < MOST_EVENTS) {
            losses[loss_count++] = (Loss){a, b, d / 100, (int)c};
        } else if (sscanf(line, "rate %lf %lf %lf", &a, &b, &c) == 3 && rate_count < MOST_EVENTS) {
            rates[rate_count++] = (Rate){a, b, c * 125000};
        } else if (sscanf(line, "seed %lf", &a) == 1) {
            seed = (uint64_t)a, state = mix(seed) | 1;
        } else if (!strncmp(line, "lose-ipv6", 9)) {
            loses_ipv6 = 1;
        }
    }
    fclose(file);
    if (path_count == 0) fail("no path");
}

static void wait_for(const int *devices) {
    double wait_s = heap_count ? heap[0].due_s - now_s() : 0.2;
    if (wait_s <= 0) return;
    struct pollfd polled[2] = {{devices[0], POLLIN, 0}, {devices[1], POLLIN, 0}};
    struct timespec limit = {0, (long)((wait_s < 0.2 ? wait_s : 0.2) * 1e9)};
    ppoll(polled, 2, &limit, NULL);
}

int main(int count, char **words) {
    static unsigned char bytes[MOST_BYTES];
    if (count != 4) return fprintf(stderr, "usage: wan FILE CLIENT SERVER\n"), 2;
    read_network(words[1]);
    int devices[2] = {open_device(words[2], 1, 2), open_device(words[3], 2, 1)};
    signal(SIGTERM, end);
    signal(SIGINT, end);
    begun_s = now_s();
    printf("ready\n");
    fflush(stdout);
    while (!is_ended) {
        int is_idle = 1;
        for (double at_s = now_s(); heap_count && heap[0].due_s <= at_s;) {
            Packet packet = pop();
            /* A device that takes no packet now loses it, as a full network card does. */
            if (write(devices[1 - packet.from], packet.bytes, packet.length) < 0 && errno == EBADF) fail("tun");
            free(packet.bytes);
        }
        for (int from = 0; from < 2; from++)
            for (int i = 0; i < AT_ONCE; i++) {
                int length = read(devices[from], bytes, sizeof bytes);
                if (length <= 0) break;
                is_idle = 0;
                take(bytes, length, from, now_s());
            }
        if (is_idle) wait_for(devices);
    }
    for (int i = 0; i < path_count; i++)
        fprintf(stderr, "path %d: %ld packets, %ld lost, %ld dropped at queues\n", i, paths[i].packets, paths[i].lost,
                paths[i].dropped);
    return 0;
}
