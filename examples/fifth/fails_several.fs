include str.fs

: build-greeting name greeting
  greeting s" , " s+ name s+
  allocate drop ;
