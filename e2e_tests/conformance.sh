#!/usr/bin/env bash
# The official test suite of the protocol against this server with the suite's fixture tools, for both versions.
#
#   e2e_tests/conformance.sh [--readme] [FOLDER]
#
# FOLDER (target/conformance) keeps the suite and its results. --readme puts the counts into README.md; without it, counts
# that do not stand there fail. Scenarios and checks that are not applicable stand in
# e2e_tests/conformance/not-applicable-VERSION.yml with their reasons: the run fails when one of them starts to pass, and
# when any other fails.
set -euo pipefail
cd "$(dirname "$0")/.."

readme=check
if [ "${1:-}" = --readme ]; then readme=put; shift; fi
suite=0.2.0-alpha.12
versions=(2025-11-25 2026-07-28)
folder=${1:-target/conformance}
mkdir -p "$folder"
folder=$(realpath "$folder")

if ! command -v npm >/dev/null; then
    echo 'SKIPPED conformance: there is no npm'
    exit 0
fi
# npm chooses versions by the Node that runs it: Node first, alone.
install() { (cd "$folder" && timeout 300 npm install --no-fund --no-audit --loglevel=error "$@" >>npm.log 2>&1); }
(cd "$folder" && { [ -f package.json ] || npm init -y >/dev/null; })
export PATH=$folder/node_modules/node/bin:$PATH
if ! install node@22 || ! install "@modelcontextprotocol/conformance@$suite"; then
    echo "SKIPPED conformance: npm does not have the suite; see $folder/npm.log"
    exit 0
fi
runner=$folder/node_modules/@modelcontextprotocol/conformance/dist/index.js

cargo build -q --example conformance_server --features conformance
server=$(realpath "${CARGO_TARGET_DIR:-target}/debug/examples/conformance_server")
coproc SERVER { exec "$server" 2>&1; }
trap 'kill "$SERVER_PID" 2>/dev/null || true' EXIT
read -r -t 20 url <&"${SERVER[0]}"

status=0
table=$folder/table
{
    echo '| version | scenarios that pass whole | not applicable | checks that pass | checks of what is not applicable or an optional extension |'
    echo '|---|---|---|---|---|'
} >"$table"
for version in "${versions[@]}"; do
    log=$folder/$version.log
    excused=e2e_tests/conformance/not-applicable-$version.yml
    code=0
    timeout 600 node "$runner" server --url "$url" --requirements "$version" --expected-failures "$excused" \
        --output-dir "$folder/results-$version" >"$log" 2>&1 || code=$?
    if [ "$code" != 0 ]; then
        status=1
        tail -60 "$log"
    fi
    passed=$(grep -c '^✓ ' "$log") excused=$(grep -c '^  ~ ' "$log") checks=$(sed -n 's/^Total: //p' "$log")
    echo "conformance $version: $passed scenarios pass whole, $excused scenarios and single checks are not applicable;" \
        "$checks checks, optional extensions among them; $log"
    sed "s/ passed, / | /; s/ failed/ |/; s/^/| $version | $passed | $excused | /" <<<"$checks" >>"$table"
done
e2e_tests/readme.sh "$readme" conformance "$table" || status=1
exit "$status"
