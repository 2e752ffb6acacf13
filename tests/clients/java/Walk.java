import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** The walk with the HttpClient of the JDK: `java Walk.java URL NAME`. A private CA is named by SSL_CERT_FILE. */
public class Walk {
    private static final String[] GROUP = {"X-Producer-Group", "walk"};
    private static final String LEASE = "\"id\":\"(\\w+)\",.*?\"version\":(\\d+)";
    private static final String STATUS = "\"status\":\"(\\w+)\"";

    private final String url;
    private final String name;
    private final HttpClient client;

    Walk(String url, String name, HttpClient client) {
        this.url = url;
        this.name = name;
        this.client = client;
    }

    public static void main(String[] arguments) throws Exception {
        Walk walk = new Walk(arguments[0], arguments[1], client(System.getenv("SSL_CERT_FILE")));
        walk.streams();
        walk.topics();
        walk.bodies();
        System.exit(0);
    }

    static HttpClient client(String authority) throws Exception {
        if (authority == null) {
            return HttpClient.newHttpClient();
        }
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        try (InputStream pem = new FileInputStream(authority)) {
            trusted.setCertificateEntry("authority", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return HttpClient.newBuilder().sslContext(context).build();
    }

    void streams() throws Exception {
        String events = "/event-types/" + name + "/events";
        HttpResponse<String> answer = call("POST", "/event-types",
            "{\"name\": \"" + name + "\", \"owning_application\": \"walk\", \"category\": \"undefined\"}");
        told("create event type", answer, List.of());
        answer = call("POST", events, "[{\"n\": 1}, {\"n\": 2}, {\"n\": 3}]");
        told("publish", answer, List.of());
        HttpResponse<InputStream> stream = open(events + "?stream_limit=3&batch_limit=3&stream_timeout=30",
            "X-Nakadi-Cursors", "[{\"partition\": \"0\", \"offset\": \"BEGIN\"}]");
        String all = new String(stream.body().readAllBytes(), StandardCharsets.UTF_8);
        told("read events", stream, found("\"n\": ?(\\d+)", all));

        answer = call("POST", "/subscriptions",
            "{\"owning_application\": \"walk\", \"event_types\": [\"" + name + "\"], \"read_from\": \"begin\"}");
        told("subscribe", answer, found("\"event_types\":\\[(\"[^\"]+\")", answer.body()));
        String path = "/subscriptions/" + found("\"id\":\"([^\"]+)\"", answer.body()).get(0);
        stream = open(path + "/events?batch_limit=3");
        String cursor;
        try (BufferedReader lines = lines(stream)) {
            String batch = next(lines);
            told("read subscription", stream, found("\"n\": ?(\\d+)", batch));
            cursor = found("\"cursor\":(\\{[^}]*\\})", batch).get(0);
            String streamId = stream.headers().firstValue("X-Nakadi-StreamId").orElseThrow();
            answer = call("POST", path + "/cursors", "{\"items\": [" + cursor + "]}", "X-Nakadi-StreamId", streamId);
            told("commit", answer, List.of());
        }
        answer = call("GET", path + "/cursors", null);
        String offset = "\"offset\":\"([^\"]+)\"";
        told("committed", answer, List.of(found(offset, answer.body()).equals(found(offset, cursor))));
    }

    void topics() throws Exception {
        String topic = "/topics/" + name;
        HttpResponse<String> answer = call("PUT", topic, "{\"bucket_count\": 8}");
        told("create topic", answer, found("\"name\":(\"[^\"]+\")", answer.body()));
        results("schedule", schedule("m1", "m2", "m3"));
        List<Lease> leases = new ArrayList<>();
        for (int pulls = 0; pulls < 30 && leases.size() < 3; pulls++) {
            answer = call("POST", topic + "/leases",
                "{\"consumer_id\": \"walker\", \"limit\": " + (3 - leases.size()) + ", \"wait_ms\": 2000}");
            leases.addAll(Lease.all(answer.body()));
        }
        leases.sort((one, other) -> one.id().compareTo(other.id()));
        told("lease", answer, ids(leases));
        answer = hold("extend", leases, ", \"after_ms\": 60000");
        results("extend", answer);
        results("delete", hold("delete", Lease.all(answer.body()).subList(0, 2), ""));

        HttpResponse<InputStream> stream = open(topic + "/leases?consumer_id=walker");
        try (BufferedReader lines = lines(stream)) {
            leases = new ArrayList<>(Lease.all(next(lines)));
            results("schedule while streaming", schedule("m4"));
            leases.addAll(Lease.all(next(lines)));
            told("push", stream, ids(leases));
            results("delete what was pushed", hold("delete", leases, ""));
        }
    }

    void bodies() throws Exception {
        String events = "/event-types/" + name + "/events";
        String messages = "/topics/" + name + "/messages";
        problem("not an array", call("POST", events, "{\"n\": 1}"));
        problem("no such event type", call("GET", "/event-types/" + name + "-no", null));
        problem("no instant", call("PATCH", messages + "/m1", "{\"after_ms\": \"soon\"}", GROUP));
        TreeSet<Integer> statuses = new TreeSet<>();
        for (int n = 0; n < 20; n++) {
            statuses.add(call("POST", events, "[{\"n\": " + n + "}]").statusCode());
        }
        told("keep alive", call("GET", "/health", null), statuses);
        String large = IntStream.range(0, 8)
            .mapToObj(n -> "{\"n\": " + n + ", \"filling\": \"" + "x".repeat(500_000) + "\"}")
            .collect(Collectors.joining(",", "[", "]"));
        HttpResponse<String> answer = call("POST", events, large);
        told("large body", answer, answer.body().isEmpty() ? List.of() : List.of(quoted(answer.body())));
        byte[] message = "{\"messages\": [{\"id\": \"c1\", \"after_ms\": 0, \"body\": 1}]}".getBytes(StandardCharsets.UTF_8);
        // Of a stream nobody knows the length.
        BodyPublisher pieces = BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(message));
        results("body in chunks", client.send(request("POST", messages, pieces, GROUP), BodyHandlers.ofString()));
    }

    HttpResponse<String> schedule(String... ids) throws Exception {
        String messages = List.of(ids).stream()
            .map(id -> "{\"id\": \"" + id + "\", \"after_ms\": 0, \"body\": {\"for\": \"" + id + "\"}}")
            .collect(Collectors.joining(",", "{\"messages\": [", "]}"));
        return call("POST", "/topics/" + name + "/messages", messages, GROUP);
    }

    HttpResponse<String> hold(String how, List<Lease> leases, String more) throws Exception {
        String claims = leases.stream()
            .map(lease -> "{\"id\": \"" + lease.id + "\", \"version\": " + lease.version + more + "}")
            .collect(Collectors.joining(",", "{\"consumer_id\": \"walker\", \"leases\": [", "]}"));
        return call("POST", "/topics/" + name + "/leases/" + how, claims);
    }

    HttpResponse<String> call(String method, String path, String body, String... headers) throws Exception {
        BodyPublisher sent = body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(body);
        return client.send(request(method, path, sent, headers), BodyHandlers.ofString());
    }

    HttpResponse<InputStream> open(String path, String... headers) throws Exception {
        return client.send(request("GET", path, BodyPublishers.noBody(), headers), BodyHandlers.ofInputStream());
    }

    HttpRequest request(String method, String path, BodyPublisher body, String... headers) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path)).method(method, body);
        return (headers.length > 0 ? request.headers(headers) : request).build();
    }

    static BufferedReader lines(HttpResponse<InputStream> stream) {
        return new BufferedReader(new InputStreamReader(stream.body(), StandardCharsets.UTF_8));
    }

    /** The next line that is not there to keep the stream alive. */
    static String next(BufferedReader lines) throws IOException {
        String line = lines.readLine();
        while (line.isEmpty()) {
            line = lines.readLine();
        }
        return line;
    }

    static void results(String step, HttpResponse<String> answer) {
        told(step, answer, found(STATUS, answer.body()).stream().map(Walk::quoted).toList());
    }

    static void problem(String step, HttpResponse<String> answer) {
        List<Object> seen = new ArrayList<>();
        seen.add(quoted(answer.headers().firstValue("Content-Type").orElse("")));
        seen.addAll(found("\"status\":(\\d+)", answer.body()));
        seen.addAll(found("\"code\":(\"\\w+\")", answer.body()));
        told(step, answer, seen);
    }

    static void told(String step, HttpResponse<?> answer, Collection<?> seen) {
        String protocol = answer.version() == HttpClient.Version.HTTP_2 ? "HTTP/2" : "HTTP/1.1";
        System.out.println("{\"step\": " + quoted(step) + ", \"status\": " + answer.statusCode()
            + ", \"protocol\": " + quoted(protocol) + ", \"seen\": " + seen + "}");
    }

    static List<String> ids(List<Lease> leases) {
        return leases.stream().map(lease -> quoted(lease.id)).toList();
    }

    static List<String> found(String pattern, String text) {
        return Pattern.compile(pattern).matcher(text).results().map(match -> match.group(1)).toList();
    }

    static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    record Lease(String id, String version) {
        static List<Lease> all(String text) {
            return Pattern.compile(LEASE).matcher(text).results()
                .map(match -> new Lease(match.group(1), match.group(2))).toList();
        }
    }
}
