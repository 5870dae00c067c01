A request for this file runs the FastCGI application behind demo_fcgi.
This text itself is never sent, not even when the application is down.
