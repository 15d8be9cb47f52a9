#!/usr/bin/env bash
# Serves a real language model on this machine, for users without a key to a better one: SmolLM2 on
# llama-cpp-python, with the chat-completions interface of the large services. It is small, fluent
# and often wrong. The first run builds it (about 5 minutes); later runs serve it until Ctrl-C.
#
#   brain.sh [--install-only]        BRAIN_PORT: the port on 127.0.0.1, 8000 by default
source "$(dirname "$0")/common.sh"

port=${BRAIN_PORT:-8000}
venv=$root/.venv-brain
packages=$root/scripts/brain-packages.txt

install() {
    ! is_made "$venv" "$packages" --no-deps || return 0
    "$root/scripts/setup-apt.sh" brain
    say "building the local language model's server: about 5 minutes, this once"
    # Not built for exactly this processor: builds that use AMX crash in ggml_backend_amx_mul_mat on
    # some.
    CMAKE_ARGS="-DGGML_NATIVE=OFF -DLLAVA_BUILD=OFF" \
        environment "$venv" "$packages" llama-cpp-python --no-deps
}

port_is_taken() {
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null
}

install
[[ ${1:-} != --install-only ]] || exit 0

port_is_taken &&
    fail "port $port is taken: stop the program there, or choose another port with BRAIN_PORT=8001"
weights=$(find "$venv" -name 'SmolLM2-135M-Instruct*.gguf' -print -quit)
[[ -n $weights ]] || fail "the model is missing: remove .venv-brain and run this again"

say "the model answers on http://127.0.0.1:$port/v1 in a moment; in another terminal:"
say "  make run ARGS=\"--llm http://127.0.0.1:$port/v1 --model smollm2\""
say "  .build/release/parley serve --llm http://127.0.0.1:$port/v1 --model smollm2"
# Half of the cores. The model's threads wait for each other by spinning: on a core that the voice
# server or the recogniser also needs, one thread makes 56 tokens a second and two make 2.
threads=$((($(nproc) + 1) / 2))
# 2,048 tokens are enough for a spoken conversation and keep the memory at half a gigabyte.
exec "$venv/bin/python" -m llama_cpp.server --model "$weights" --model_alias smollm2 \
    --host 127.0.0.1 --port "$port" --n_ctx 2048 --n_threads "$threads" \
    --n_threads_batch "$threads" --verbose false
