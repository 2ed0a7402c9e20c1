/* A Linux boot image (Documentation/arch/x86/boot.rst, protocol 2.12) that prints on the first
   serial port what it was started with, and resets. */
    .code16
    .org 0
image:
    .org 0x1f1
    .byte 1                         /* setup_sects */
    .org 0x1f4
    .long (end - payload) / 16      /* syssize */
    .org 0x1fe
    .word 0xaa55
    .byte 0xeb, 0x66                /* a jump over the header */
    .ascii "HdrS"
    .word 0x020c
    .org 0x211
    .byte 1                         /* loadflags: loaded high */
    .org 0x214
    .long 0x100000                  /* code32_start */
    .org 0x22c
    .long 0x7fffffff                /* initrd_addr_max */
    .long 0x1000                    /* kernel_alignment */
    .byte 1                         /* relocatable_kernel */
    .byte 12                        /* min_alignment */
    .org 0x238
    .long 2047                      /* cmdline_size */
    .org 0x258
    .quad 0x100000                  /* pref_address */
    .long 0x100000                  /* init_size */
    .org 0x400
    .code32
payload:
    cli
    cld
    lea 0x1e8(%esi), %esp           /* the scratch field, as the kernel's own head uses it */
    call 1f
1:  pop %ebp
    sub $(1b - payload), %ebp
    mov %esi, %ebx
    /* A stack of its own. */
    lea (end - payload + 0x4000)(%ebp), %esp
    lea (said - payload)(%ebp), %esi
    call print
    lea (label - payload)(%ebp), %esi
    call print
    lea (sum - payload)(%ebp), %esi
    call print
    mov %ebp, %esi
    mov $(end - payload), %ecx
    call add
    call hex
    lea (initrd - payload)(%ebp), %esi
    call print
    mov 0x218(%ebx), %esi
    mov 0x21c(%ebx), %ecx
    call add
    call hex
    lea (line - payload)(%ebp), %esi
    call print
    mov 0x228(%ebx), %esi
    call print
    lea (over - payload)(%ebp), %esi
    call print
    mov $0xcf9, %dx
    mov $0x06, %al
    out %al, %dx
2:  hlt
    jmp 2b

/* Prints the text at esi. */
print:
    lodsb
    test %al, %al
    jz 4f
    call put
    jmp print
4:  ret

put:
    mov %al, %ah
    mov $0x3fd, %dx
3:  in %dx, %al
    test $0x20, %al
    jz 3b
    mov %ah, %al
    mov $0x3f8, %dx
    out %al, %dx
    ret

/* The sum in eax of the ecx bytes at esi. */
add:
    xor %eax, %eax
    xor %edx, %edx
    jecxz 6f
5:  mov (%esi), %dl
    add %edx, %eax
    inc %esi
    dec %ecx
    jnz 5b
6:  ret

/* Prints eax. */
hex:
    mov %eax, %edi
    mov $8, %ecx
7:  rol $4, %edi
    mov %edi, %eax
    and $0xf, %al
    cmp $10, %al
    jb 8f
    add $('a' - '0' - 10), %al
8:  add $'0', %al
    call put
    dec %ecx
    jnz 7b
    ret

said:   .asciz "\r\n[started "
sum:    .asciz " sum="
initrd: .asciz " initrd="
line:   .asciz " line="
over:   .asciz "]\r\n"
    .balign 16, 0
/* Filled in by the tests, and the last thing in the image. */
label:
    .fill 32, 1, 0
end:
