<?php
// A small site of posts that says of its pages what a plug-in for LiteSpeed's cache says.
// Posts are files; every page tells by its number how often it was made.
$dir = __DIR__ . '/data';
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$cache = !empty($_SERVER['X-LSCACHE']);
header('X-Sees: ' . ($cache ? $_SERVER['X-LSCACHE'] : 'no'));
header('Content-Type: text/html; charset=UTF-8');

function made($page) {
    global $dir;
    $f = fopen("$dir/made", 'c+');
    flock($f, LOCK_EX);
    $n = 1 + (int)stream_get_contents($f);
    rewind($f);
    fwrite($f, (string)$n);
    fclose($f);
    return "<p>$page made as number $n</p>\n";
}

function say($control, $tags) {
    header("X-LiteSpeed-Cache-Control: $control");
    $all = ['e08_HTTP.200', 'e08_'];
    foreach ($tags as $t) $all[] = "e08_$t";
    header('X-LiteSpeed-Tag: ' . implode(',', $all));
}

$user = $_COOKIE['wordpress_logged_in_e08'] ?? '';
if (preg_match('#^/post/(\d+)$#', $path, $m)) {
    $text = @file_get_contents("$dir/post-$m[1]");
    if ($text === false) { http_response_code(404); say('public,max-age=60', ['404']); echo made('nothing'); exit; }
    if ($user !== '') { say('private,max-age=120', ["Po.$m[1]"]); echo made("post for $user"), $text; exit; }
    header('X-LiteSpeed-Vary: cookie=theme');
    say('public,max-age=600', ["Po.$m[1]", 'F']);
    echo made('post'), htmlspecialchars($_COOKIE['theme'] ?? 'plain'), ": $text";
} elseif ($path === '/') {
    say('public,max-age=600,max-stale=300', ['home', 'F']);
    echo made('home');
    foreach (glob("$dir/post-*") as $f) echo file_get_contents($f);
} elseif ($path === '/account') {
    if ($user === '') { header('X-LiteSpeed-Cache-Control: no-cache'); http_response_code(403); exit; }
    say('private,max-age=120', ['account']);
    echo made("account of $user"), str_repeat("<i>$user</i>", 400);
} elseif (preg_match('#^/edit/(\d+)$#', $path, $m)) {
    file_put_contents("$dir/post-$m[1]", file_get_contents('php://input'), LOCK_EX);
    header('X-LiteSpeed-Cache-Control: no-cache');
    header("X-LiteSpeed-Purge: public,stale,tag=e08_home;public,e08_Po.$m[1];private,e08_Po.$m[1]");
    header('X-LiteSpeed-Purge2: /feed');
    echo 'edited';
} elseif ($path === '/flush') {
    header('X-LiteSpeed-Purge: *');
    echo 'flushed';
} elseif ($path === '/mine') {
    header('X-LiteSpeed-Purge: private,*');
    echo 'yours is gone';
} elseif ($path === '/feed') {
    say('public,max-age=600', []);
    header('Set-Cookie: seen=1');
    echo made('feed');
} else {
    header('X-LiteSpeed-Cache-Control: no-cache');
    echo made('other');
}
