#!/usr/bin/env bash
# Stands between a client and the server and keeps what both say: record.sh FOLDER SERVER [ARGUMENTS].
set -u
folder=$1
shift
exec 2>>"$folder/errors"
tee -a "$folder/asked" | "$@" | tee -a "$folder/answered"
