#!/usr/bin/env bash
# Tables of README.md that tests make: readme.sh put NAME TABLE puts one between its markers, readme.sh check NAME TABLE
# fails unless each of its lines stands there.
set -euo pipefail
cd "$(dirname "$0")/.."
action=$1 name=$2 table=$3

case $action in
put)
    made=$(mktemp)
    trap 'rm -f "$made"' EXIT
    awk -v name="$name" -v table="$table" '
        $0 ~ "^<!-- " name ":end -->$" { inside = 0 }
        !inside { print }
        $0 ~ "^<!-- " name ":begin" { inside = 1; while ((getline line < table) > 0) print line }
    ' README.md >"$made"
    cat "$made" >README.md
    ;;
check)
    stands=$(sed -n "/^<!-- $name:begin/,/^<!-- $name:end/p" README.md)
    missing=$(grep -vxF -e "$stands" "$table" || true)
    if [ -n "$missing" ]; then
        printf 'README.md does not have these lines in its table %s; run this with --readme:\n%s\n' "$name" "$missing"
        exit 1
    fi
    ;;
*)
    echo "usage: readme.sh put|check NAME TABLE" >&2
    exit 2
    ;;
esac
