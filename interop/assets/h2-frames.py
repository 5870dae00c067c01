"""h2-frames GROUP HOST:PORT CA-FILE: an HTTP/2 client over TLS that breaks the
protocol by hand-made frames, a connection for each case, and knows from RFC 9113
what each of them has to lead to. Behind each case another connection, which is
that of the library h2, has to be answered. Prints a line of JSON, or ends with
status 1 and the cases that went wrong.

Needs Debian's python3-h2, hpack and hyperframe with it.
"""
import json
import socket
import ssl
import struct
import sys

import h2.config
import h2.connection
import h2.events
import hpack
from hyperframe.frame import FRAMES, Frame

GROUP, ADDRESS, CA = sys.argv[1:4]
HOST, PORT = ADDRESS.rsplit(":", 1)
SMALL, OPEN, DEAF = "/small.txt", "/m/late", "/deaf/"  # DEAF: nobody ever reads the body

NO, PROTOCOL, INTERNAL, FLOW, TIMEOUT, CLOSED, SIZE, REFUSED, CANCEL, COMPRESSION, CONNECT, CALM = range(12)
NAMES = ["no_error", "protocol_error", "internal_error", "flow_control_error", "settings_timeout",
         "stream_closed", "frame_size_error", "refused_stream", "cancel", "compression_error",
         "connect_error", "enhance_your_calm", "inadequate_security", "http_1_1_required"]
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
UPDATE = 0x10  # PRIORITY_UPDATE, RFC 9218
KINDS = list(range(10)) + [0xa, 0xb, 0xc, 0xd, 0xe, 0xf, UPDATE, 0x11, 0x80, 0xff]
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITIZED = 1, 1, 4, 8, 0x20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MOST = (1 << 31) - 1

tls = ssl.create_default_context(cafile=CA)
tls.set_alpn_protocols(["h2"])


def dial():
    s = tls.wrap_socket(socket.create_connection((HOST, int(PORT)), 20), server_hostname="localhost")
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.settimeout(20)
    return s


def frame(kind, flags, stream, payload=b"", length=None):
    n = len(payload) if length is None else length
    return struct.pack(">I", n)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def setting(*pairs):
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", k, v) for k, v in pairs))


def update(stream, n):
    return frame(WINDOW, 0, stream, struct.pack(">I", n))


class Wrong(Exception):
    pass


class Client:
    """One connection. What the server says is parsed by hyperframe."""

    def __init__(self, first=None):
        self.s, self.buf = dial(), b""
        self.enc, self.dec = hpack.Encoder(), hpack.Decoder()
        self.next, self.pings = 1, 0
        self.window, self.windows, self.initial = 65535, {}, 65535  # what we may send
        self.resets, self.goaway, self.ended, self.status, self.got = {}, None, set(), {}, {}
        self.send(PREFACE + setting() if first is None else first)

    def send(self, b):
        try:
            self.s.sendall(b)
        except OSError:
            pass  # what the server had to say is read before the error counts

    def block(self, method, path, more=()):
        return self.enc.encode([(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path), *more])

    def ask(self, ends, method="GET", path=SMALL, more=(), flags=END_HEADERS):
        stream, self.next = self.next, self.next + 2
        self.windows[stream] = self.initial
        self.send(frame(HEADERS, flags | ends, stream, self.block(method, path, more)))
        return stream

    def open(self):
        return self.ask(0, "POST", OPEN)

    def read(self):
        """One frame; None at the end of the connection."""
        while True:
            if len(self.buf) >= 9:
                n = int.from_bytes(self.buf[:3], "big")
                if len(self.buf) >= 9 + n:
                    f, _ = Frame.parse_frame_header(memoryview(self.buf[:9]))
                    f.parse_body(memoryview(self.buf[9:9 + n]))
                    self.buf = self.buf[9 + n:]
                    self.take(f)
                    return f
            try:
                b = self.s.recv(1 << 16)
            except ssl.SSLError as e:
                raise Wrong("TLS ended badly: %s" % e)
            except socket.timeout:
                raise Wrong("no answer within 20 s")
            except ConnectionResetError:
                return None
            if not b:
                return None
            self.buf += b

    def take(self, f):
        if f.type == SETTINGS and "ACK" not in f.flags:
            if SETTINGS_WINDOW in f.settings:
                step = f.settings[SETTINGS_WINDOW] - self.initial
                self.initial += step
                for stream in self.windows:
                    self.windows[stream] += step
            self.send(frame(SETTINGS, ACK, 0))
        elif f.type == WINDOW and f.stream_id == 0:
            self.window += f.window_increment
        elif f.type == WINDOW:
            self.windows[f.stream_id] = self.windows.get(f.stream_id, 0) + f.window_increment
        elif f.type == RST:
            self.resets[f.stream_id] = f.error_code
        elif f.type == GOAWAY:
            self.goaway = f.error_code
        elif f.type == HEADERS:
            if "END_HEADERS" not in f.flags:
                raise Wrong("a head of several frames, which this client does not expect")
            fields = self.dec.decode(f.data)
            if fields and fields[0][0] == ":status":
                self.status[f.stream_id] = fields[0][1]
        elif f.type == DATA:
            self.got[f.stream_id] = self.got.get(f.stream_id, 0) + len(f.data)
        if f.type in (HEADERS, DATA) and "END_STREAM" in f.flags:
            self.ended.add(f.stream_id)

    def wait(self, until):
        while not until():
            if self.read() is None:
                raise Wrong("the connection ended, GOAWAY %s" % name(self.goaway))

    def ping(self):
        """All frames so far have been handled when it returns."""
        self.pings += 1
        data = struct.pack(">Q", self.pings)
        self.send(frame(PING, 0, 0, data))
        while True:
            f = self.read()
            if f is None:
                raise Wrong("the connection ended, GOAWAY %s" % name(self.goaway))
            if f.type == PING and "ACK" in f.flags and bytes(f.opaque_data) == data:
                return

    def close(self):
        self.s.close()


SETTINGS_WINDOW = 4


def name(code):
    return "none" if code is None else NAMES[code]


def goaway(*codes):
    """The connection ends, and by one of codes."""
    def verify(c):
        while c.read() is not None:
            pass
        if c.goaway not in codes:
            raise Wrong("GOAWAY %s, want %s" % (name(c.goaway), "/".join(map(name, codes))))
        counted[name(c.goaway)] = counted.get(name(c.goaway), 0) + 1
    return verify


def reset(stream, *codes):
    """The stream ends by one of codes, and nothing else does."""
    def verify(c):
        c.wait(lambda: stream in c.resets)
        c.ping()
        if c.goaway is not None or c.resets != {stream: c.resets[stream]}:
            raise Wrong("GOAWAY %s, resets %s" % (name(c.goaway), c.resets))
        if c.resets[stream] not in codes:
            raise Wrong("RST_STREAM %s, want %s" % (name(c.resets[stream]), "/".join(map(name, codes))))
    return verify


def alive(c):
    """Nothing ends."""
    c.ping()
    if c.goaway is not None or c.resets:
        raise Wrong("GOAWAY %s, resets %s" % (name(c.goaway), c.resets))


def served(c):
    """A request of its own is answered."""
    alive(c)
    stream = c.ask(END_STREAM)
    c.wait(lambda: stream in c.ended)
    if c.status.get(stream) != "200" or c.got[stream] != witness.size:
        raise Wrong("answered %s with %s bytes" % (c.status.get(stream), c.got.get(stream)))
    if c.goaway is not None or c.resets:
        raise Wrong("GOAWAY %s, resets %s" % (name(c.goaway), c.resets))


class Witness:
    """Somebody else, who speaks HTTP/2 as the library does, on one connection."""

    def __init__(self):
        self.s = dial()
        self.c = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.c.initiate_connection()
        self.size = None
        self.size = self.look()

    def look(self):
        stream = self.c.get_next_available_stream_id()
        self.c.send_headers(stream, [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", SMALL)], end_stream=True)
        self.s.sendall(self.c.data_to_send())
        status, size = None, 0
        while True:
            b = self.s.recv(1 << 16)
            if not b:
                raise Wrong("the other connection was closed")
            for e in self.c.receive_data(b):
                if isinstance(e, h2.events.ConnectionTerminated):
                    raise Wrong("the other connection got a GOAWAY")
                if isinstance(e, h2.events.ResponseReceived):
                    status = dict(e.headers)[":status"]
                if isinstance(e, h2.events.DataReceived):
                    size += len(e.data)
                    self.c.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
                if isinstance(e, h2.events.StreamEnded) and e.stream_id == stream:
                    self.s.sendall(self.c.data_to_send())
                    if status != "200" or self.size not in (None, size):
                        raise Wrong("the other connection was answered %s with %d bytes" % (status, size))
                    return size
            self.s.sendall(self.c.data_to_send())


counted, failures, cases = {}, [], 0


def case(what, verify, act, **how):
    """act(client) breaks the protocol, verify(client) looks what comes of it."""
    global cases
    cases += 1
    c = None
    try:
        c = Client(**how)
        act(c)
        verify(c)
    except Exception as e:  # of the library too: then the server has broken the protocol
        failures.append("%s: %s" % (what, e))
    finally:
        if c is not None:
            c.close()
    try:
        witness.look()
    except Exception as e:
        failures.append("%s: beside it: %s" % (what, e))


# What a frame of zeros has to lead to, by its kind, its length and its stream: 1 is
# open, 3 idle, 2 one that only a server could begin.
def verdict(kind, n, stream):
    if n > 16384:
        return goaway(SIZE)  # RFC 9113 §4.2
    if kind in (DATA, HEADERS, PRIORITY, RST, CONTINUATION) and stream == 0:
        return goaway(PROTOCOL, SIZE) if n == 0 else goaway(PROTOCOL)
    if kind in (SETTINGS, PING, GOAWAY, UPDATE) and stream != 0:
        return goaway(PROTOCOL)
    if kind == DATA:
        return alive if stream == 1 else goaway(PROTOCOL)  # §6.1, §5.1 idle
    if kind == HEADERS:
        if stream == 2:
            return goaway(PROTOCOL)  # §5.1.1
        if n % 3 != 0:
            return goaway(COMPRESSION)  # three zeros are a field without name and value
        return reset(stream, PROTOCOL)  # §8.1: trailers that end nothing; §8.3.1: no request
    if kind == PRIORITY:
        if n == 5:
            return alive
        return reset(1, SIZE) if stream == 1 else goaway(SIZE)  # no RST_STREAM on an idle stream, §6.4
    if kind == RST:
        if n != 4:
            return goaway(SIZE)
        return alive if stream == 1 else goaway(PROTOCOL)
    if kind == SETTINGS:
        return alive if n % 6 == 0 else goaway(SIZE)
    if kind == PUSH:
        return goaway(PROTOCOL)  # §8.4
    if kind == PING:
        return alive if n == 8 else goaway(SIZE)
    if kind == GOAWAY:
        return alive if n >= 8 else goaway(SIZE)
    if kind == WINDOW:
        if n != 4:
            return goaway(SIZE)
        return reset(1, PROTOCOL) if stream == 1 else goaway(PROTOCOL)  # of 0 bytes, §6.9
    if kind == CONTINUATION:
        return goaway(PROTOCOL)  # §6.10
    if kind == UPDATE:
        return goaway(SIZE) if n < 4 else goaway(PROTOCOL)  # RFC 9218 §7.1: of stream 0
    return alive  # §5.5


def lengths():
    """Frames of each kind and length, and such as are cut at every length."""
    def one(kind, n, stream):
        def act(c):
            c.open()
            c.send(frame(kind, END_HEADERS if kind == HEADERS else 0, stream, bytes(n)))
        case("kind %#x, %d bytes, stream %d" % (kind, n, stream), verdict(kind, n, stream), act)

    for kind in KINDS:
        for n in [*range(19), 255, 256, 16383, 16384, 16385]:
            for stream in (0, 1, 2, 3):
                one(kind, n, stream)
    whole = frame(HEADERS, END_HEADERS | END_STREAM, 1, hpack.Encoder().encode([(":method", "GET"), (":path", SMALL)]))
    for n in range(len(whole)):
        case("cut behind %d bytes" % n, lambda c: None, lambda c: c.send(whole[:n]))
    for n in range(len(PREFACE)):
        case("preface cut behind %d bytes" % n, lambda c: None, lambda c: None, first=PREFACE[:n])
        other = PREFACE[:n] + bytes([PREFACE[n] ^ 0x20]) + PREFACE[n + 1:]
        case("preface wrong at %d" % n, goaway(PROTOCOL), lambda c: None, first=other + setting())


def streams():
    """Frames on streams that are idle, half-closed or closed (RFC 9113 §5.1)."""
    def half(c):
        s = c.ask(END_STREAM, "POST", DEAF)
        c.ping()
        return s

    def done(c):
        s = c.ask(END_STREAM)
        c.wait(lambda: s in c.ended)
        return s

    def cancelled(c):
        s = c.open()
        c.send(frame(RST, 0, s, struct.pack(">I", CANCEL)))
        c.ping()
        return s

    trailer = frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x00\x01a\x01b")
    rank = frame(PRIORITY, 0, 1, struct.pack(">IB", 0, 7))
    cancel = frame(RST, 0, 1, struct.pack(">I", CANCEL))
    for state, begin, table in (
        ("half-closed", half, [("DATA", frame(DATA, 0, 1, b"x"), reset(1, CLOSED)), ("the end again", frame(DATA, END_STREAM, 1), reset(1, CLOSED)),
                               ("HEADERS", trailer, reset(1, CLOSED)), ("CONTINUATION", frame(CONTINUATION, END_HEADERS, 1, b""), goaway(PROTOCOL)),
                               ("WINDOW_UPDATE", update(1, 9), served), ("PRIORITY", rank, served), ("RST_STREAM", cancel, served)]),
        ("answered", done, [("DATA", frame(DATA, 0, 1, b"x"), reset(1, CLOSED)), ("HEADERS", trailer, goaway(CLOSED)),
                            ("CONTINUATION", frame(CONTINUATION, END_HEADERS, 1, b""), goaway(PROTOCOL)),
                            ("WINDOW_UPDATE", update(1, 9), served), ("PRIORITY", rank, served), ("RST_STREAM", cancel, served)]),
        ("cancelled", cancelled, [("DATA", frame(DATA, 0, 1, b"x"), reset(1, CLOSED)), ("HEADERS", trailer, goaway(CLOSED)),
                                  ("WINDOW_UPDATE", update(1, 9), served), ("PRIORITY", rank, served), ("RST_STREAM", cancel, served)]),
    ):
        for what, sends, verify in table:
            case("%s: %s" % (state, what), verify, lambda c: (begin(c), c.send(sends)))

    def refused(c):  # the server has reset it: what was on its way is no fault, §5.1
        s = c.ask(0, "POST", OPEN, [("connection", "close")])
        c.wait(lambda: s in c.resets)
        if c.resets.pop(s) != PROTOCOL:
            raise Wrong("another reset")
        return s
    for what, sends in (("DATA", frame(DATA, 0, 1, b"x")), ("HEADERS", trailer), ("WINDOW_UPDATE", update(1, 9)), ("RST_STREAM", cancel)):
        case("reset by the server: " + what, served, lambda c: (refused(c), c.send(sends)))

    for stream in (2, 3, MOST):
        for what, sends in (("DATA", frame(DATA, 0, stream, b"x")), ("RST_STREAM", frame(RST, 0, stream, bytes(4))),
                            ("WINDOW_UPDATE", update(stream, 1)), ("CONTINUATION", frame(CONTINUATION, END_HEADERS, stream, b""))):
            case("idle %d: %s" % (stream, what), goaway(PROTOCOL), lambda c: (c.open(), c.send(sends)))
        case("idle %d: PRIORITY" % stream, served, lambda c: (c.open(), c.send(frame(PRIORITY, 0, stream, bytes(5)))))
    for stream in (2, 4):
        for what, sends, verify in (("DATA", frame(DATA, 0, stream, b"x"), goaway(PROTOCOL)), ("RST_STREAM", frame(RST, 0, stream, bytes(4)), goaway(PROTOCOL)),
                                    ("WINDOW_UPDATE", update(stream, 1), goaway(PROTOCOL)), ("PRIORITY of a byte", frame(PRIORITY, 0, stream, b"x"), goaway(SIZE)),
                                    ("PRIORITY_UPDATE", frame(UPDATE, 0, 0, struct.pack(">I", stream)), goaway(PROTOCOL))):
            case("even %d below the last one: %s" % (stream, what), verify, lambda c: (setattr(c, "next", 5), done(c), c.send(sends)))
    case("a stream with an even number", goaway(PROTOCOL), lambda c: c.send(frame(HEADERS, END_HEADERS | END_STREAM, 2, c.block("GET", SMALL))))

    def backwards(c):
        c.next = 5
        done(c)
        c.next = 3
        c.ask(END_STREAM)
    case("a number below the last one", goaway(PROTOCOL, CLOSED), backwards)

    def last(c):
        c.next = MOST
        done(c)
    case("the last number there is", alive, last)
    # Nothing may come between HEADERS and their CONTINUATION, §4.3.
    for kind in KINDS:
        if kind != CONTINUATION:
            case("within a head: kind %#x" % kind, goaway(PROTOCOL),
                 lambda c: (c.open(), c.ask(END_STREAM, flags=0), c.send(frame(kind, 0, 0 if kind in (SETTINGS, PING, GOAWAY, UPDATE) else 1, bytes(8 if kind in (PING, GOAWAY) else 5 if kind == PRIORITY else 4 if kind in (RST, WINDOW, UPDATE) else 0)))))
    case("CONTINUATION of another stream", goaway(PROTOCOL), lambda c: (c.open(), c.ask(END_STREAM, flags=0), c.send(frame(CONTINUATION, END_HEADERS, 1, b""))))
    case("CONTINUATION behind a whole head", goaway(PROTOCOL), lambda c: (c.open(), c.send(frame(CONTINUATION, END_HEADERS, 1, b""))))

    def pieces(c):  # a head of one byte a frame is none of these
        block = c.block("GET", SMALL)
        c.send(frame(HEADERS, END_STREAM, 1, block[:1]))
        for i in range(1, len(block)):
            c.send(frame(CONTINUATION, END_HEADERS if i + 1 == len(block) else 0, 1, block[i:i + 1]))
        c.next = 3
        c.wait(lambda: 1 in c.ended)
    case("a head in pieces of a byte", served, pieces)


def settings():
    """SETTINGS as they must not be, and such as have to be borne."""
    for what, pair, code in (
        ("ENABLE_PUSH 2", (2, 2), PROTOCOL), ("ENABLE_PUSH 2^32-1", (2, 2**32 - 1), PROTOCOL),
        ("INITIAL_WINDOW_SIZE 2^31", (4, 2**31), FLOW), ("INITIAL_WINDOW_SIZE 2^32-1", (4, 2**32 - 1), FLOW),
        ("MAX_FRAME_SIZE 0", (5, 0), PROTOCOL), ("MAX_FRAME_SIZE 16383", (5, 16383), PROTOCOL), ("MAX_FRAME_SIZE 2^24", (5, 2**24), PROTOCOL),
        ("NO_RFC7540_PRIORITIES 2", (9, 2), PROTOCOL),  # RFC 9218 §2.1
    ):
        case(what, goaway(code), lambda c: None, first=PREFACE + setting(pair))
        case(what + ", later", goaway(code), lambda c: (c.open(), c.send(setting(pair))))
        case(what + ", behind a good one", goaway(code), lambda c: None, first=PREFACE + setting((4, 100), pair))
    for what, pairs in (
        ("ENABLE_PUSH 1", [(2, 1)]), ("unknown", [(0, 7), (0x0a0a, 2**32 - 1), (0xffff, 1)]), ("the same often", [(4, i) for i in range(1000)] + [(4, 65535)]),
        ("HEADER_TABLE_SIZE 0", [(1, 0)]), ("HEADER_TABLE_SIZE 2^32-1", [(1, 2**32 - 1)]), ("MAX_FRAME_SIZE 2^24-1", [(5, 2**24 - 1)]),
        ("INITIAL_WINDOW_SIZE 2^31-1", [(4, 2**31 - 1)]), ("MAX_HEADER_LIST_SIZE 0", [(6, 0)]), ("MAX_CONCURRENT_STREAMS 0", [(3, 0)]),
        ("NO_RFC7540_PRIORITIES 1", [(9, 1)]), ("ENABLE_CONNECT_PROTOCOL 1", [(8, 1)]), ("none", []),
    ):
        case(what, served, lambda c: None, first=PREFACE + setting(*pairs))
    for n in (1, 6, 16384):
        case("ACK of %d bytes" % n, goaway(SIZE), lambda c: c.send(frame(SETTINGS, ACK, 0, bytes(n))))
    case("an ACK that nobody waits for", served, lambda c: [c.send(frame(SETTINGS, ACK, 0)) for _ in range(20)])
    for kind in KINDS:
        if kind == SETTINGS:
            continue
        case("first frame of kind %#x" % kind, goaway(PROTOCOL), lambda c: None, first=PREFACE + frame(kind, 0, 0 if kind in (PING, GOAWAY) else 1, bytes(8 if kind in (PING, GOAWAY) else 4)))
    case("ACK first", goaway(PROTOCOL), lambda c: None, first=PREFACE + frame(SETTINGS, ACK, 0))

    def stalled(c):  # §6.9.2: what is under way follows the setting, below zero too
        s = c.ask(END_STREAM)
        c.wait(lambda: c.got.get(s, 0) >= 10)
        c.send(setting((4, 0)))
        c.ping()
        if c.got.get(s) != 10:
            raise Wrong("%s bytes in a window of 10" % c.got.get(s))
        c.send(setting((4, 9)) + update(s, 1))  # of -10 bytes that makes 0
        c.ping()
        if c.got[s] != 10:
            raise Wrong("%d bytes in a window that is not open again" % c.got[s])
        c.send(update(s, 10))
        c.wait(lambda: c.got[s] != 10)
        c.ping()
        if c.got[s] != 20:
            raise Wrong("%d bytes in a window of 20" % c.got[s])
        c.send(setting((4, 65535)))
        c.wait(lambda: s in c.ended)
        if c.got[s] != witness.size:
            raise Wrong("%d bytes" % c.got[s])
    case("the window of a stream under way", alive, stalled, first=PREFACE + setting((4, 10)))
    case("a setting lifts a window too high", goaway(FLOW), lambda c: (c.open(), c.send(update(1, MOST - 65535) + setting((4, 65536)))))
    case("flood", goaway(CALM), lambda c: c.send(setting((4, 1), (4, 2)) * 20000))
    case("flood of empty ones", goaway(CALM), lambda c: c.send(setting() * 20000))
    case("flood of PING", goaway(CALM), lambda c: c.send(frame(PING, 0, 0, bytes(8)) * 60000))
    case("flood of ACK", goaway(CALM), lambda c: c.send((frame(SETTINGS, ACK, 0) + frame(PING, ACK, 0, bytes(8))) * 20000))


def windows():
    """Flow control (RFC 9113 §6.9)."""
    case("overflow of the connection", goaway(FLOW), lambda c: (c.open(), c.send(update(0, MOST))))
    case("overflow in two steps", goaway(FLOW), lambda c: c.send(update(0, MOST - 65535) + update(0, 1)))
    case("up to the brim", served, lambda c: c.send(update(0, MOST - 65535)))
    case("overflow of a stream", reset(1, FLOW), lambda c: (c.open(), c.send(update(1, MOST))))
    case("overflow of a stream in two steps", reset(1, FLOW), lambda c: (c.open(), c.send(update(1, MOST - 65535) + update(1, 1))))
    case("a stream up to the brim", served, lambda c: (c.open(), c.send(update(1, MOST - 65535))))
    case("0 of the connection", goaway(PROTOCOL), lambda c: c.send(update(0, 0)))
    case("0 but for the reserved bit", goaway(PROTOCOL), lambda c: c.send(update(0, 1 << 31)))
    case("0 of a stream", reset(1, PROTOCOL), lambda c: (c.open(), c.send(update(1, 0))))
    case("flood of single bytes", goaway(CALM), lambda c: (c.open(), c.send((update(0, 1) + update(1, 1)) * 20000)))

    def fill(c, stream):
        """Sends to a body that nobody reads, until its window stays closed."""
        while True:
            n = min(c.windows[stream], c.window, 16384)
            if n > 0:
                c.windows[stream] -= n
                c.window -= n
                c.send(frame(DATA, 0, stream, bytes(n)))
                continue
            closed = 0
            while closed < 5 and min(c.windows[stream], c.window) == 0:
                c.ping()
                closed += 1
            if min(c.windows[stream], c.window) == 0:
                return

    def beyond(c):
        c.ping()  # the settings of the server
        s = c.ask(0, "POST", DEAF)
        fill(c, s)
        c.send(frame(DATA, 0, s, b"x"))
    case("DATA beyond the window of a stream", reset(1, FLOW), beyond)

    def padded(c):
        c.ping()
        s = c.ask(0, "POST", DEAF)
        fill(c, s)
        c.send(frame(DATA, PADDED, s, bytes([0])))
    case("padding beyond the window of a stream", reset(1, FLOW), padded)

    def all_of_it(c):
        c.ping()
        while c.window > 0:
            s = c.ask(0, "POST", DEAF)
            fill(c, s)
        s = c.ask(0, "POST", DEAF)
        c.send(frame(DATA, 0, s, b"x"))
    case("DATA beyond the window of the connection", goaway(FLOW), all_of_it)


def padding():
    """Padding (RFC 9113 §6.1, §6.2)."""
    for n in (1, 2, 5, 100, 255):
        for says in (n - 1, n, 255):
            if says < n - 1 or says > 255:
                continue
            payload = bytes([says]) + bytes(n - 1)
            verify = goaway(PROTOCOL) if says > n - 1 else alive
            case("DATA of %d bytes, %d of them padding" % (n, says), verify, lambda c: (c.open(), c.send(frame(DATA, PADDED, 1, payload))))
            verify = goaway(PROTOCOL) if says > n - 1 else reset(1, PROTOCOL)  # a head without fields is no request
            case("HEADERS of %d bytes, %d of them padding" % (n, says), verify, lambda c: c.send(frame(HEADERS, PADDED | END_HEADERS, 1, payload)))
    case("DATA without the length of its padding", goaway(PROTOCOL, SIZE), lambda c: (c.open(), c.send(frame(DATA, PADDED, 1))))
    case("HEADERS without it", goaway(PROTOCOL, SIZE), lambda c: c.send(frame(HEADERS, PADDED | END_HEADERS, 1)))
    for n in range(1, 6):  # no room for the priority
        case("HEADERS with padding and %d bytes of priority" % (n - 1), goaway(SIZE, PROTOCOL), lambda c: c.send(frame(HEADERS, PADDED | PRIORITIZED | END_HEADERS, 1, bytes(n))))
    case("DATA on an idle stream, padded wrong", goaway(PROTOCOL), lambda c: c.send(frame(DATA, PADDED, 1, b"\xff")))

    def noisy(c):  # padding that is not zero may be borne
        block = c.block("GET", SMALL)
        c.next = 3
        c.send(frame(HEADERS, PADDED | END_HEADERS | END_STREAM, 1, bytes([200]) + block + b"\xaa" * 200))
        c.wait(lambda: 1 in c.ended)
    case("a head in much padding", served, noisy)

    def upload(c):  # padding is given back like bytes
        c.ping()
        s = c.open()
        for _ in range(4000):
            while min(c.window, c.windows[s]) < 258:
                c.read()
            c.window -= 258
            c.windows[s] -= 258
            c.send(frame(DATA, PADDED, s, bytes([255]) + b"xy" + bytes(255)))
        c.send(frame(DATA, END_STREAM, s))
        c.wait(lambda: s in c.ended)
        if c.status[s] != "200":
            raise Wrong("status " + c.status[s])
    case("a body of a megabyte of padding", served, upload)

    def nothing(c):
        c.ping()
        s = c.open()
        for _ in range(60000):
            if c.goaway is not None:
                return
            while min(c.window, c.windows[s]) < 256:
                if c.read() is None:
                    return
            c.window -= 256
            c.windows[s] -= 256
            c.send(frame(DATA, PADDED, s, bytes([255]) + bytes(255)))
    case("flood of nothing but padding", goaway(CALM), nothing)
    case("flood of empty DATA", goaway(CALM), lambda c: (c.open(), c.send(frame(DATA, 0, 1) * 60000)))


def priorities():
    """Priorities of RFC 9113 §5.3 and RFC 9218."""
    own = struct.pack(">IB", 1, 15)
    case("PRIORITY on itself", reset(1, PROTOCOL), lambda c: (c.open(), c.send(frame(PRIORITY, 0, 1, own))))
    case("PRIORITY of an idle stream on itself", goaway(PROTOCOL), lambda c: (c.open(), c.send(frame(PRIORITY, 0, 3, struct.pack(">IB", 3, 15)))))
    case("HEADERS on itself", reset(1, PROTOCOL), lambda c: c.send(frame(HEADERS, PRIORITIZED | END_HEADERS, 1, own + c.block("POST", OPEN))))
    case("exclusive on itself", reset(1, PROTOCOL), lambda c: (c.open(), c.send(frame(PRIORITY, 0, 1, struct.pack(">IB", 1 | 1 << 31, 15)))))
    case("on what is not there", served, lambda c: (c.open(), c.send(frame(PRIORITY, 0, 1, struct.pack(">IB", MOST, 0)))))

    def ring(c):
        for a, b in ((7, 9), (9, 11), (11, 7)):
            c.send(frame(PRIORITY, 0, a, struct.pack(">IB", b, 255)))
    case("in a ring", served, ring)
    case("flood of PRIORITY", goaway(CALM), lambda c: (c.open(), c.send(frame(PRIORITY, 0, 1, struct.pack(">IB", 0, 1)) * 40000)))
    case("flood of PRIORITY of idle streams", goaway(CALM), lambda c: c.send(b"".join(frame(PRIORITY, 0, 2 * i + 1, bytes(5)) for i in range(40000))))
    for what, value in (("empty", b""), ("u=0, i", b"u=0, i"), ("out of range", b"u=9"), ("no field", b"\x00\xff;;=,"), ("long", b"u=1," * 4000), ("unknown", b"x=1, y;z=2")):
        case("PRIORITY_UPDATE, " + what, served, lambda c: (c.open(), c.send(frame(UPDATE, 0, 0, struct.pack(">I", 1) + value))))
        case("priority field, " + what, alive, lambda c: (c.ask(END_STREAM, more=[("priority", value.replace(b"\x00", b" ")[:9000])])))
    case("PRIORITY_UPDATE of an idle stream", served, lambda c: c.send(frame(UPDATE, 0, 0, struct.pack(">I", 9) + b"u=1")))
    case("flood of PRIORITY_UPDATE", goaway(CALM), lambda c: (c.open(), c.send(frame(UPDATE, 0, 0, struct.pack(">I", 1) + b"u=1") * 40000)))


def heads():
    """Field blocks: HPACK (RFC 7541) and what may be a request (RFC 9113 §8)."""
    for what, block in (
        ("index 0", b"\x80"), ("an index beyond the tables", b"\xff\x80\x80\x80\x01"), ("an integer without end", b"\xff" + b"\xff" * 30),
        ("a string longer than its block", b"\x00\x05ab"), ("a table above the limit", b"\x3f\xe2\x1f" + b"\x82"), ("a table resized behind a field", b"\x40\x01a\x01b\x20"),
        ("Huffman with EOS", b"\x00\x84\xff\xff\xff\xff\x01a"), ("Huffman padded by zeros", b"\x00\x81\x18\x01a"), ("cut in a name", b"\x40\x0aab"),
    ):
        case(what, goaway(COMPRESSION), lambda c: c.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, block)))
        case(what + ", in pieces", goaway(COMPRESSION), lambda c: c.send(frame(HEADERS, END_STREAM, 1, block[:1]) + frame(CONTINUATION, END_HEADERS, 1, block[1:])))
        case(what + ", of trailers", goaway(COMPRESSION), lambda c: (c.open(), c.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, block))))
    m, s, a, p = (":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", SMALL)
    for what, fields in (
        ("no method", [s, a, p]), ("no path", [m, s, a]), ("no scheme", [m, a, p]), ("two methods", [m, m, s, a, p]), ("two paths", [m, s, a, p, p]),
        ("an empty path", [m, s, a, (":path", "")]), ("an unknown one", [m, s, a, p, (":what", "x")]), ("one of answers", [m, s, a, p, (":status", "200")]),
        ("one behind others", [m, s, a, ("x", "y"), p]), ("a capital letter", [m, s, a, p, ("X-a", "y")]), ("connection", [m, s, a, p, ("connection", "close")]),
        ("transfer-encoding", [m, s, a, p, ("transfer-encoding", "chunked")]), ("te: gzip", [m, s, a, p, ("te", "gzip")]),
        ("a line break", [m, s, a, p, ("x", "a\r\nb: c")]), ("a NUL", [m, s, a, p, ("x", "a\0b")]), ("a space in a name", [m, s, a, p, ("x y", "z")]), ("an empty name", [m, s, a, p, ("", "z")]),
        ("protocol without CONNECT", [m, s, a, p, (":protocol", "websocket")]),
    ):
        case(what, reset(1, PROTOCOL), lambda c: c.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, c.enc.encode(fields))))
    case("trailers with a pseudo-header field", reset(1, PROTOCOL), lambda c: (c.open(), c.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, c.enc.encode([p])))))
    case("a body longer than it says", reset(1, PROTOCOL), lambda c: (c.ask(0, "POST", OPEN, [("content-length", "3")]), c.send(frame(DATA, 0, 1, b"four"))))
    case("CONTINUATION without end", goaway(CALM), lambda c: (c.ask(END_STREAM, flags=0), c.send(frame(CONTINUATION, 0, 1, b"") * 50000)))
    case("a head without end", goaway(CALM), lambda c: (c.ask(END_STREAM, flags=0), c.send(frame(CONTINUATION, 0, 1, b"\x00\x01a\x7f\x81\x7f" * 1000) * 50)))

    def bomb(c):  # one field of the table, thousands of times
        c.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, c.block("GET", SMALL) + b"\x40\x01a\x7f\xe0\x1e" + b"a" * 4063 + b"\xbe" * 12000))
        c.enc, c.next = hpack.Encoder(), 3  # the table of the server has nothing else any more
        c.wait(lambda: 1 in c.ended)
        if c.status[1] != "431":
            raise Wrong("status " + c.status[1])
    case("a field of 4 KiB 12,000 times", served, bomb)

    def resets(c):
        for _ in range(2000):
            s = c.ask(END_STREAM, "POST", OPEN)
            c.send(frame(RST, 0, s, struct.pack(">I", CANCEL)))
    case("rapid resets", goaway(CALM), resets)


witness = Witness()
{"lengths": lengths, "streams": streams, "settings": settings, "windows": windows, "padding": padding, "priorities": priorities, "heads": heads}[GROUP]()
if failures:
    print("%d of %d cases\n%s" % (len(failures), cases, "\n".join(failures[:40])), file=sys.stderr)
    sys.exit(1)
print(json.dumps({"cases": cases, "goaway": counted}))
