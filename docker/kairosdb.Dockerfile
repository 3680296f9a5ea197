# KairosDB 1.3 from its Maven artefacts. There is no official image.
FROM maven:3.9-eclipse-temurin-17
COPY tests/peers /peers
RUN /peers/kairosdb.sh fetch /kairosdb
WORKDIR /kairosdb
EXPOSE 8080
CMD ["java", "-Xmx1g", "--add-opens", "java.base/java.lang=ALL-UNNAMED", \
     "--add-opens", "java.base/java.util=ALL-UNNAMED", "--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED", \
     "--add-opens", "java.base/java.nio=ALL-UNNAMED", "-cp", "/kairosdb/lib/*", \
     "org.kairosdb.core.Main", "-c", "run", "-p", "/kairosdb/conf/kairosdb.conf"]
