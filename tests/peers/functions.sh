# Sourced by the scripts beside it: what starting a server on a free port and stopping it again needs.
# shellcheck shell=bash

# Prints a path of a Java that Cassandra 5 runs on (11 or 17), or nothing.
find_java() {
  local java
  for java in /usr/lib/jvm/java-17-*/bin/java /usr/lib/jvm/java-11-*/bin/java "$(command -v java || true)"; do
    [ -x "$java" ] || continue
    "$java" -version 2>&1 | grep -qE '"(11|17)\.' && echo "$java" && return
  done
}

# Prints options for a Java, a line each. PEER_LIFE=short is for a Java that lives for minutes and that nobody
# measures, as in tests: a second compiler, a concurrent collector and the check of every class cost more than they
# give back. A Cassandra then does not show its tables to JMX, some hundred objects each, and does not estimate ranges.
# It leaves to the system when a file comes to the disk: what it has written is there after a kill, and no test cuts
# the power.
java_life() {
  if [ "${PEER_LIFE:-}" = short ]; then
    printf '%s\n' -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData \
      -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote \
      -Dorg.apache.cassandra.disable_mbean_registration=true -Dcassandra.size_recorder_interval=0 \
      -Dcassandra.skip_sync=true
  else
    echo -XX:+UseG1GC
  fi
}

# Prints a port of 127.0.0.1 that nobody listens on. Below the ephemeral range, so that no
# outgoing connection takes it meanwhile; the caller tries again when a server lost a race for it.
free_port() {
  local port
  while :; do
    port=$((10000 + (RANDOM * 32768 + RANDOM) % 22000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
  done
  echo "$port"
}

# stop DIR: ends the process whose id is in DIR/pid. At once: nothing it holds is kept.
stop() {
  local pid
  [ -f "$1/pid" ] || return 0
  # Another script may have been first.
  pid=$(cat "$1/pid" 2>/dev/null) || return 0
  rm -f "$1/pid"
  kill -9 "$pid" 2>/dev/null || return 0
  while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
}

# maven_jars DIR NAME < dependencies: puts the jars of these Maven dependencies into DIR/lib, once.
maven_jars() {
  local dir=$1 name=$2
  if [ -d "$dir/lib" ]; then return 0; fi
  mkdir -p "$dir"
  {
    echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    echo "<groupId>peers</groupId><artifactId>$name</artifactId><version>1</version><dependencies>"
    cat
    echo '</dependencies></project>'
  } > "$dir/pom.xml"
  rm -rf "$dir/lib.part"
  (cd "$dir" && mvn -q -B -Dstyle.color=never dependency:copy-dependencies -DoutputDirectory="$dir/lib.part")
  mv "$dir/lib.part" "$dir/lib"
}

# java_logging DIR: a logback configuration that writes to standard output.
java_logging() {
  cat > "$1/logback.xml" <<'XML'
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level %date{HH:mm:ss} %logger{20} - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="out"/></root>
</configuration>
XML
}
