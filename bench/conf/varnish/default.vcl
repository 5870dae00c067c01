vcl 4.1;
# Varnish: its defaults, with the upstream; it keeps in memory (-s malloc).
backend app {
  .host = "127.0.0.1";
  .port = "{{port .App}}";
}
