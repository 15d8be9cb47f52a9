#!/usr/bin/env bash
# A cluster on this machine: nodes of the release binary, the Redis that they share, HAProxy in front,
# and Prometheus. For trying what a deploy, a crash or a lost network does; not for production, whose
# counterpart is in examples/deploy.
#
#   cluster.sh [up] [PARLEY OPTIONS…]   starts everything and shows it; Ctrl-C ends everything
#   cluster.sh status                   what runs, and the sessions of each node
#   cluster.sh roll                     a rolling restart: each node drains, ends and starts again
#   cluster.sh kill N                   SIGKILL for node N        cluster.sh start N    starts it again
#   cluster.sh stop N                   node N drains and ends    cluster.sh cut N      no network
#   cluster.sh heal N                   the network is back       cluster.sh down       ends everything
#   cluster.sh redis pause|resume|kill|start     SIGSTOP, SIGCONT, SIGKILL, and an empty Redis
#
#   CLUSTER_PORT=8600   the first of 20 ports: +0 the front, +1… the nodes, +10 Redis, +11 HAProxy's
#                       own page, +12 Prometheus
#   CLUSTER_NODES=3     1 to 8
#   CLUSTER_ISOLATED=1  each node in a network namespace of its own, which `cut` needs; as root
#   CLUSTER_DETACHED=1  `up` returns when all nodes are ready
#   CLUSTER_PROMETHEUS=0  without Prometheus
#
# The state is in .build/cluster/PORT: configuration, logs, process ids. Several clusters may run beside
# each other on ports of their own. Only processes that are named there are signalled.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

if [[ ${1-} == --help || ${1-} == -h ]]; then
    # The comment at the file's beginning, without what is for the shell.
    awk 'NR > 1 && !/^#/ { exit } NR > 1 && !/shellcheck/ { sub(/^# ?/, ""); print }' "$0"
    exit
fi

port=${CLUSTER_PORT:-8600}
if [[ ! $port =~ ^[0-9]+$ ]] || ((port < 1024 || port > 65500)); then
    fail "CLUSTER_PORT is 1024 to 65500"
fi
state=$root/.build/cluster/$port
binary=${PARLEY_BINARY:-$root/.build/release/parley}
redis_port=$((port + 10)) page_port=$((port + 11)) prometheus_port=$((port + 12))
bridge=parley$port
# Addresses for tests of networks (RFC 2544), which no real network has.
network=198.18.$((port % 256))

# The settings of a running cluster are those that it was started with.
if [[ -e $state/settings ]]; then
    # shellcheck source=/dev/null
    source "$state/settings"
else
    nodes=${CLUSTER_NODES:-3} isolated=${CLUSTER_ISOLATED:-0} prometheus=${CLUSTER_PROMETHEUS:-1}
fi
[[ $nodes =~ ^[1-8]$ ]] || fail "CLUSTER_NODES is 1 to 8"

# HAProxy holds two sockets for each client, and takes what it may.
ulimit -n "$(ulimit -H -n)"

# The addresses that the parts of the cluster listen on, and at which others reach them.
common_address() { ((isolated)) && echo "$network.1" || echo 127.0.0.1; }
node_address() { ((isolated)) && echo "$network.1$1" || echo 127.0.0.1; }
node_url() { echo "http://$(node_address "$1"):$((port + $1))"; }
redis_url() { echo "redis://$(common_address):$redis_port"; }

node_urls() {
    local number list=()
    for ((number = 1; number <= nodes; number++)); do list+=("$(node_url "$number")"); done
    (IFS=, && echo "${list[*]}")
}

# MARK: Processes

# The file of a part holds its process id, and when the kernel started that process.
pid_of() { cut -d ' ' -f 1 "$state/$1.pid" 2>/dev/null; }

# A process's id and its start (proc(5): stat, field 22); nothing for one that has ended. No part's
# program has a blank in its name.
identity() { awk '$3 != "Z" { print $1, $22 }' "/proc/$1/stat" 2>/dev/null; }

# Whether a part runs. A process id that another program has by now does not count.
runs() {
    local known
    known=$(cat "$state/$1.pid" 2>/dev/null) && [[ $known == "$(identity "${known%% *}")" ]]
}

# launch NAME COMMAND…: starts a part in a session of its own, so that Ctrl-C reaches this script only.
launch() {
    local name=$1
    shift
    setsid "$@" >>"$state/$name.log" 2>&1 </dev/null &
    identity $! >"$state/$name.pid"
    disown
}

signal_part() {
    local pid
    runs "$1" && pid=$(pid_of "$1") && kill "-$2" "$pid"
}

# await WHAT SECONDS COMMAND…: repeats a command until it succeeds.
await() {
    local what=$1 deadline=$((SECONDS + $2))
    shift 2
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < deadline)) || fail "$what takes too long; see the logs in ${state#"$root"/}"
        sleep 0.1
    done
}

has_ended() { ! runs "$1"; }

end_part() {
    signal_part "$1" "${2:-TERM}" 2>/dev/null || return 0
    await "the end of $1" 60 has_ended "$1"
}

# MARK: Nodes

# get N PATH: a page of a node, as an operator.
get() {
    local key=()
    [[ -s $state/key ]] && key=(-H "Authorization: Bearer $(<"$state/key")")
    curl --silent --fail --max-time 2 "${key[@]}" "$(node_url "$1")$2"
}

is_ready() { get "$1" /readyz; }

# Waits until a node is ready; one that has ended says why.
await_node() {
    await "node $1" 60 is_ready_or_over "$1"
    runs "node$1" || fail "node $1 has ended: $(tail -n 1 "$state/node$1.log")"
}

is_ready_or_over() { is_ready "$1" || ! runs "node$1"; }

start_node() {
    local number=$1 inside=() options=()
    ! runs "node$number" || fail "node $number runs"
    ((isolated)) && inside=(ip netns exec "$bridge-$number")
    mapfile -t options <"$state/options"
    [[ ! -s $state/key ]] || inside+=(env "PARLEY_API_KEY=$(<"$state/key")")
    launch "node$number" "${inside[@]}" "$binary" serve \
        --host "$(node_address "$number")" --port $((port + number)) \
        --trusted-proxies "$(common_address)" --unlimited-addresses "$(common_address),127.0.0.0/8" \
        "${options[@]}"
}

check_node() {
    if [[ ! ${1-} =~ ^[0-9]+$ ]] || (($1 < 1 || $1 > nodes)); then
        fail "name a node: 1 to $nodes"
    fi
}

# The value of a metric in a page, its series added up.
metric() { awk -v name="$1" '{ split($1, a, "{") } a[1] == name { sum += $2 } END { print sum + 0 }'; }

# MARK: Networks

make_networks() {
    ((EUID == 0)) || fail "CLUSTER_ISOLATED=1 needs root: it makes network namespaces"
    remove_networks
    local number
    ip link add "$bridge" type bridge
    ip address add "$network.1/24" dev "$bridge"
    ip link set "$bridge" up
    for ((number = 1; number <= nodes; number++)); do
        ip netns add "$bridge-$number"
        ip link add "$bridge.$number" type veth peer name eth0 netns "$bridge-$number"
        ip link set "$bridge.$number" master "$bridge" up
        ip -n "$bridge-$number" link set lo up
        ip -n "$bridge-$number" address add "$(node_address "$number")/24" dev eth0
        ip -n "$bridge-$number" link set eth0 up
    done
}

remove_networks() {
    local number
    for ((number = 1; number <= nodes; number++)); do
        # The namespace goes later than its name; its cable must be gone for the next cluster.
        ip link delete "$bridge.$number" 2>/dev/null || true
        ip netns delete "$bridge-$number" 2>/dev/null || true
    done
    ip link delete "$bridge" 2>/dev/null || true
}

# A disabled port of a bridge drops every packet without notice to either side.
set_network() {
    ((isolated)) || fail "cut and heal need a cluster with CLUSTER_ISOLATED=1"
    bridge link set dev "$bridge.$1" state "$2"
}

# MARK: Configuration

# The example of examples/deploy with this cluster's addresses.
write_haproxy() {
    local number servers=""
    for ((number = 1; number <= nodes; number++)); do
        servers+="    server node$number $(node_address "$number"):$((port + number))"$'\n'
    done
    awk -v front="127.0.0.1:$port" -v page="127.0.0.1:$page_port" -v servers="$servers" '
        $1 == "bind" { $0 = "    bind " ($2 == ":80" ? front : page) }
        $1 == "server" { next }
        { print }
        $1 == "default-server" { printf "%s", servers }
    ' "$root/examples/deploy/haproxy.cfg"
}

write_prometheus() {
    local number
    cat <<PROMETHEUS
global:
  scrape_interval: 2s
scrape_configs:
  - job_name: haproxy
    static_configs:
      - targets: ["127.0.0.1:$page_port"]
  - job_name: parley
PROMETHEUS
    [[ ! -s $state/key ]] || printf '    authorization:\n      credentials_file: %s\n' "$state/key"
    printf '    static_configs:\n'
    for ((number = 1; number <= nodes; number++)); do
        printf '      - targets: ["%s:%d"]\n        labels:\n          node: "%d"\n' \
            "$(node_address "$number")" $((port + number)) "$number"
    done
}

# MARK: Redis

# Without files: the state of sessions lives for minutes, and a Redis that ends begins empty.
start_redis() {
    runs redis && fail "Redis runs"
    launch redis redis-server --port "$redis_port" --bind "$(common_address)" \
        --protected-mode no --save "" --appendonly no --daemonize no --dir "$state"
    await "Redis" 20 redis ping
}

redis() { timeout 2 redis-cli -h "$(common_address)" -p "$redis_port" "$@"; }

# MARK: Commands

up() {
    [[ -x $binary ]] || fail "$binary is missing: run \`make build\` first"
    [[ ! -e $state/settings ]] ||
        fail "a cluster runs on port $port: \`scripts/cluster.sh down\` ends it, CLUSTER_PORT=…" \
            "chooses other ports"
    "$root/scripts/setup-apt.sh" cluster
    rm -rf "$state"
    mkdir -p "$state"
    printf 'nodes=%d isolated=%d prometheus=%d\n' "$nodes" "$isolated" "$prometheus" \
        >"$state/settings"
    trap down EXIT
    trap 'exit 130' INT TERM HUP
    # Beyond loopback, a server wants credentials; the metrics and the session list then want them too.
    local secret=${PARLEY_API_KEY-}
    if ((isolated)); then
        make_networks
        secret=${secret:-$(openssl rand -hex 24)}
    fi
    (umask 077 && printf '%s' "$secret" >"$state/key")
    local number
    start_redis
    node_options "$@" >"$state/options"
    for ((number = 1; number <= nodes; number++)); do start_node "$number"; done
    write_haproxy >"$state/haproxy.cfg"
    write_prometheus >"$state/prometheus.yml"
    launch haproxy "$(command -v haproxy || echo /usr/sbin/haproxy)" -db -f "$state/haproxy.cfg"
    ((!prometheus)) || launch prometheus prometheus --config.file="$state/prometheus.yml" \
        --storage.tsdb.path="$state/prometheus" --web.listen-address="127.0.0.1:$prometheus_port" \
        --log.level=warn
    for ((number = 1; number <= nodes; number++)); do
        await_node "$number"
    done
    await "HAProxy" 20 curl --silent --fail "http://127.0.0.1:$port/readyz"
    show
    if ((${CLUSTER_DETACHED:-0})); then
        trap - EXIT
        exit 0
    fi
    # Until Ctrl-C, or `down` in another terminal.
    while [[ -e $state/settings ]]; do sleep 1; done
}

# The options of every node, one a line: those for a cluster, then those of the user, which win.
node_options() {
    local option options=(
        --store "$(redis_url)" --log-level warning --drain-delay-ms 1200 --drain-jitter-ms 2000
    )
    for option in "${options[@]}" "$@"; do printf '%s\n' "$option"; done
}

down() {
    trap - EXIT
    [[ -e $state/settings ]] || return 0
    local number part
    for ((number = 1; number <= nodes; number++)); do signal_part "node$number" KILL || true; done
    for part in prometheus haproxy redis; do signal_part "$part" KILL || true; done
    for ((number = 1; number <= nodes; number++)); do end_part "node$number" KILL; done
    # Their ports are free, too, when this returns.
    for part in prometheus haproxy redis; do end_part "$part" KILL; done
    ((!isolated)) || remove_networks
    rm -f "$state/settings"
}

# The way in and the addresses, before the table of `status`.
show() {
    printf '\nParley on %d nodes   http://127.0.0.1:%d   ws://127.0.0.1:%d/v1/realtime\n' \
        "$nodes" "$port" "$port"
    [[ ! -s $state/key ]] || printf 'Key                 %s\n' "$(<"$state/key")"
    printf 'HAProxy             http://127.0.0.1:%d/\n' "$page_port"
    ((!prometheus)) || printf 'Prometheus          http://127.0.0.1:%d/\n' "$prometheus_port"
    printf 'Redis               %s\n' "$(redis_url)"
    printf 'Logs                %s\n\n' "${state#"$root"/}"
    status
    local me="scripts/cluster.sh" more=""
    ((port == 8600)) || me="CLUSTER_PORT=$port $me"
    ((!isolated)) || more=", cut 2, heal 2"
    printf '\nSessions: %s top --cluster %s\n' "${binary#"$root"/}" "$(node_urls)"
    printf 'In another terminal: %s roll, kill 2, start 2, status%s. Ctrl-C ends all.\n' \
        "$me" "$more"
}

status() {
    [[ -e $state/settings ]] || fail "no cluster runs on port $port"
    local number page health pid
    printf '%-7s %-28s %8s %-10s %9s %9s\n' PART ADDRESS PID STATE SESSIONS MEMORY
    for ((number = 1; number <= nodes; number++)); do
        page='' health=down pid='-'
        if runs "node$number"; then
            health=silent pid=$(pid_of "node$number")
            page=$(get "$number" /metrics) && health=draining
            ! is_ready "$number" >/dev/null || health=ready
        fi
        printf '%-7s %-28s %8s %-10s %9s %9s\n' "node$number" "$(node_url "$number")" \
            "$pid" "$health" "$(metric parley_sessions <<<"$page")" \
            "$(metric process_resident_memory_bytes <<<"$page" | awk '{ printf "%d MB", $1 / 1e6 }')"
    done
    health=down
    ! runs redis || health=$(redis ping 2>/dev/null | grep -q PONG && echo ready || echo silent)
    printf '%-7s %-28s %8s %-10s %9s %9s\n' redis "$(redis_url)" "$(pid_of redis)" "$health" \
        "$(redis dbsize 2>/dev/null | awk '{ print $1 " keys" }')" \
        "$(redis info memory 2>/dev/null | awk -F: '/^used_memory:/ { printf "%.1f MB", $2 / 1e6 }')"
}

# One node after another; the next one only when the last is ready and HAProxy has seen it.
roll() {
    local number
    for ((number = 1; number <= nodes; number++)); do
        say "node $number drains"
        end_part "node$number"
        start_node "$number"
        await_node "$number"
        await "HAProxy's check of node $number" 20 haproxy_sees "$number"
        say "node $number is ready"
    done
}

haproxy_sees() {
    curl --silent "http://127.0.0.1:$page_port/;csv" |
        awk -F, -v node="node$1" '$1 == "nodes" && $2 == node && $18 == "UP" { found = 1 }
            END { exit !found }'
}

control_redis() {
    case ${1-} in
        pause) signal_part redis STOP ;;
        resume) signal_part redis CONT ;;
        kill) end_part redis KILL ;;
        start) start_redis ;;
        *) fail "redis pause, resume, kill or start" ;;
    esac
}

command=up
if [[ ${1--} != -* ]]; then
    command=$1
    shift
fi
case $command in
    up) up "$@" ;;
    status | roll | down) "$command" ;;
    kill | stop | start | cut | heal)
        [[ -e $state/settings ]] || fail "no cluster runs on port $port"
        check_node "${1-}"
        case $command in
            kill) end_part "node$1" KILL ;;
            stop) end_part "node$1" ;;
            start) start_node "$1" && await_node "$1" ;;
            cut) set_network "$1" 0 ;;
            heal) set_network "$1" 3 ;;
        esac
        ;;
    redis) control_redis "${1-}" ;;
    *) fail "cluster.sh: no command is called '$command'; --help lists them" ;;
esac
