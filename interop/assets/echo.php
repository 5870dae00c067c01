<?php
header('Content-Type: text/plain');
$env = array();
foreach ($_SERVER as $name => $value) {
    $name = preg_replace('/^(REDIRECT_)+/', '', $name);
    if (strncmp($name, 'V_', 2) == 0) {
        $env[$name] = $name . '=' . $value;
    }
}
ksort($env);
$info = isset($_SERVER['PATH_INFO']) ? $_SERVER['PATH_INFO'] : '';
echo 'script ', str_replace($_SERVER['DOCUMENT_ROOT'], '', $_SERVER['SCRIPT_FILENAME']), ' info ', $info,
    ' query ', $_SERVER['QUERY_STRING'], ' ', implode(' ', $env), "\n";
