module example.com/slower

go 1.26
