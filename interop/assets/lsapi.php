<?php
// Says what arrived, or does what is asked for. The word below must never be seen
// by a client: SOURCE-OF-LSAPI
header('Content-Type: text/plain');
if (isset($_GET['bytes'])) {
    echo str_repeat('x', (int)$_GET['bytes']);
    exit;
}
if (isset($_GET['long'])) {
    header('X-Test: ' . str_repeat('t', (int)$_GET['long']));
    exit;
}
if (isset($_GET['die'])) { // a stack without end ends the process
    if ($_GET['die'] === 'body') {
        echo str_repeat('x', 100000);
        flush();
    }
    function deeper($n) { return preg_replace_callback('/./', fn() => deeper($n + 1), 'x'); }
    ini_set('memory_limit', -1);
    deeper(0);
}
if (isset($_GET['fields'])) {
    foreach (getallheaders() as $name => $value) {
        echo "$name: $value\n";
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
foreach (['REQUEST_METHOD', 'SCRIPT_NAME', 'SCRIPT_FILENAME', 'PATH_INFO', 'QUERY_STRING', 'CONTENT_LENGTH', 'REQUEST_URI', 'SERVER_PROTOCOL',
    'GATEWAY_INTERFACE', 'REMOTE_ADDR', 'HTTP_X_ODD_NAME', 'HTTP_COOKIE', 'HTTP_PROXY', 'HOME'] as $name) {
    echo $name, '=', $_SERVER[$name] ?? '(unset)', "\n";
}
foreach ($_COOKIE as $name => $value) {
    echo "cookie $name=$value\n";
}
echo 'user ', $_SERVER['PHP_AUTH_USER'] ?? '', ' ', $_SERVER['PHP_AUTH_PW'] ?? '', "\n";
echo 'READ=', $size, "\nSHA256=", hash_final($hash), "\n";
