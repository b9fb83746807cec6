# Runs the PostgreSQL of the folder $1, with the programs in the Python package $2, until standard
# input closes, however the process at its other end ends. Prints "ready" as soon as PostgreSQL
# answers, or else why it does not.
home=$1 programs=$2/pginstall18/bin owner=$(id -u) as_user=""
umask 077
unset PGPORT PGHOSTADDR PGSERVICE PGOPTIONS PGCLIENTENCODING # of other databases
cd "$home" && exec 3<&0 </dev/null || exit

refuse() { # for the given reason, or for the last one in the log
  rm -f "user.$$"
  echo "${1:-$(sed -nE 's/.*(FATAL|error|cp|mkdir): +//p' postgres.log | tail -n 1)}"
  exit
}
pg() { program=$programs/$1 && shift && $as_user "$program" "$@" >&2; }
start() { # the search needs word statistics soon, and no log holds what was recorded
  pg pg_ctl -D postgres -w -t 86400 start -o "-c listen_addresses= -c unix_socket_directories=. \
    -c unix_socket_permissions=0700 -c autovacuum_naptime=15s -c log_min_error_statement=panic \
    -c log_error_verbosity=terse"
}
stop() { # unless another process uses it
  rm -f "user.$$"
  for user in user.*; do
    kill -0 "${user#user.}" 2>/dev/null && exit
  done
  pg pg_ctl -D postgres -m fast stop
  exit
}

if [ "$owner" = 0 ]; then # PostgreSQL refuses to be root; another user may not reach the package
  owner=65534:65534 as_user="setpriv --reuid=65534 --regid=65534 --clear-groups"
  command -v setpriv >/dev/null || refuse "as root it needs the program setpriv"
  $as_user test -x "$home" || refuse "as root it is run by user 65534, who may not enter the folder"
  if ! cmp -s "$programs/postgres" programs/package/pginstall18/bin/postgres; then
    rm -rf programs programs.new && mkdir -p programs.new/package &&
      cp -r "$2/pginstall18" programs.new/package && cp -r "$2.libs" programs.new &&
      chmod -R a+rX programs.new && mv programs.new programs || refuse
  fi
  programs=$home/programs/package/pginstall18/bin
fi
if [ ! -d postgres ]; then
  rm -rf postgres.new && mkdir postgres.new && chown "$owner" postgres.new &&
    pg initdb -D postgres.new -U postgres -A trust -E UTF8 --locale-provider=builtin --locale=C \
      --builtin-locale=C.UTF-8 && mv postgres.new postgres || refuse
fi
version=$(cat postgres/PG_VERSION)
[ "$version" = 18 ] || refuse "its data are of PostgreSQL $version, and this is 18: dump them with \
the old version, and load them into a new folder"

touch "user.$$" # see `stop`
trap stop TERM
trap "" PIPE # of `echo ready`, when nobody reads it any more
(read -r _ <&3; kill $$) &
tries=10 # a second apart: what a killed server left may still be ending
until pg pg_isready -q -U postgres -h "$home/postgres"; do
  if [ $? != 1 ]; then # 1: another process started it, and it recovers; or it is stopping
    rm -f user.* && touch "user.$$" # those that a power cut left
    start && break
    [ $((tries -= 1)) -gt 0 ] || refuse
  fi
  sleep 1
done
echo ready
while sleep 1 & wait $!; do # start it again if it was killed
  read -r pid < postgres/postmaster.pid && kill -0 "$pid" || start
done
