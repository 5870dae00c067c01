<?php
// Says what arrived, or sends what is asked for. The word below must never be
// seen by a client: SOURCE-OF-PROBE
header('Content-Type: text/plain');
if (isset($_GET['bytes'])) {
    $chunk = str_repeat('0123456789abcdef', 4096);
    for ($n = (int)$_GET['bytes']; $n > 0; $n -= strlen($chunk)) {
        echo substr($chunk, 0, $n);
    }
    exit;
}
if (isset($_GET['status'])) {
    http_response_code((int)$_GET['status']);
    header('X-Odd-Answer: a:b "c"');
    setcookie('first', '1');
    setcookie('second', '2');
    echo 'status ', (int)$_GET['status'], "\n";
    exit;
}
if (isset($_GET['log'])) {
    error_log("from the probe: {$_GET['log']}\twith a tab");
    echo "logged\n";
    exit;
}
if (isset($_GET['events'])) {
    header('Content-Type: text/event-stream');
    for ($n = 0; $n < (int)$_GET['events']; $n++) {
        printf("data: %d\n\n", (int)(microtime(true) * 1e6) * 1000);
        while (ob_get_level()) {
            ob_end_flush();
        }
        flush();
        usleep(20000);
    }
    exit;
}
$hash = hash_init('sha256');
$size = 0;
$in = fopen('php://input', 'rb');
while (!feof($in)) {
    $piece = fread($in, 65536);
    $size += strlen($piece);
    hash_update($hash, $piece);
}
foreach (['REQUEST_METHOD', 'SCRIPT_NAME', 'PATH_INFO', 'QUERY_STRING', 'CONTENT_LENGTH', 'REQUEST_URI', 'SERVER_PROTOCOL', 'HTTP_X_ODD'] as $name) {
    echo $name, '=', $_SERVER[$name] ?? '(unset)', "\n";
}
echo 'READ=', $size, "\nSHA256=", hash_final($hash), "\n";
